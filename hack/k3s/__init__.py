"""The end-to-end suite of schedpatch on k3s servers, see hack/k3s-e2e."""
