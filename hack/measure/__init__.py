"""What hack/bench and hack/soak share: a node of a test bed, the agent in it, and ways to look at both from outside."""
