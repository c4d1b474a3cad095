"""What `selftest` checks."""
