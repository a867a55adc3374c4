"""Decisions, pure: no I/O, no clock, no asyncio, no kopf. A decision carries its reason and its numbers."""
