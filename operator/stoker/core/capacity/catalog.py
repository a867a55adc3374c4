"""Accelerators as data: memory, bandwidth, speed and price of each."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What one accelerator costs."""

    per_hour: float
    currency: str
    as_of: str
    """Date of the price, as 2026-11-01."""
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One kind of accelerator."""

    name: str
    """As in `accelerator.type`: vendor, model and, where several exist, memory."""
    visible_bytes: int
    """Memory that the driver reports."""
    bandwidth_bytes_per_s: float
    flops_16bit: float
    """Dense operations per second in bfloat16."""
    flops_8bit: float | None
    """Dense operations per second in fp8; None where there is no such unit."""
    flops_4bit: float | None
    price: Price | None
    """None where no price is known; never taken for 0."""
