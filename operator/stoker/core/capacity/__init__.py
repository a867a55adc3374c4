"""How many requests fit: concurrency at a context length, from a model's config and an accelerator.

Read `estimate.py` first: it puts the parts together. Everything is in bytes and tokens; a GiB is
made only where a person reads it.
"""
