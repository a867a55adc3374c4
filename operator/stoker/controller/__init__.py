"""Time and concurrency: what wakes a reconcile, who runs it, and how the process starts and stops."""
