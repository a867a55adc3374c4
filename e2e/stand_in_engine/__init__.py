"""A server that behaves like vLLM without a model: API, metrics, timing, limits, and faults on command.

`README.md` beside this file says how to start it and which readings its timing comes from.
"""
