"""A stand-in for `k3s server`: the real programs of Kubernetes as children of one process that behaves like k3s."""
