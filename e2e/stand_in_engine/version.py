"""Which vLLM the stand-in behaves like."""

VLLM_VERSION = "0.32.0"
VERSION = f"{VLLM_VERSION}+standin"
"""What `/version` says: nobody should take it for the real one."""
