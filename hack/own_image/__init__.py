"""What hack/image-e2e is made of."""
