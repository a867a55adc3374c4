"""Weights on nodes."""
