"""Supervises one inference engine inside a pod. Standard library only, and nothing of `stoker`:
the engine pins its own stack, and the two are never resolved in one environment."""
