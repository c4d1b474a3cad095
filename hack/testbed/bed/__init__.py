"""A real Kubernetes control plane on one Debian machine: what `testbed` is made of."""
