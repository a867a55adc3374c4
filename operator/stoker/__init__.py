"""Stoker: a Kubernetes operator that keeps inference fleets warm."""

__version__ = "0.1.0"
