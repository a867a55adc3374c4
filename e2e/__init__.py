"""End to end: a real Kubernetes on one machine, and what is tried on it."""
