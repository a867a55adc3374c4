"""Fetchers: one for each kind of source, all with the same shape."""
