"""How far is the likely speed to be trusted? A band around it, and why it is as wide as it is.

A band is the span of reading / estimate that published readings show, widened where there are few of them.
One band for all would be useless: a dense model on one H100 is known within a fifth, a mixture of experts on
a kind of accelerator that nobody measured hardly within a factor of two. What was not measured widens the
band downwards only: nothing ran faster than the readings for lack of them.
"""

from dataclasses import dataclass

from stoker.core.capacity.roofline import Hardware, Work

_MANY = 8
"""Accelerators from which first tokens were read that nobody explains (rows 10 and 26)."""
_UNEXPLAINED_S = 0.6
_FAST_LINK_BYTES_PER_S = 100e9
"""Between PCIe (31 to 63 GB/s) and what tensor-parallel readings were taken with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The span of true speed / likely speed."""

    low: float
    high: float
    why: str
    """Why it is as wide as it is; one sentence or more."""
    first_token_more_s: float = 0.0
    """Seconds that the first token may take beyond what explains it."""


def band(work: Work, hardware: Hardware) -> Band:
    """The band for this model on this hardware.

    Example: a dense model on one H100 -> .75 to 1.3 of the estimate.
    """
    measured = _measured(work, hardware)
    low, why = measured.low, [measured.why]
    link = hardware.accelerator.link_bytes_per_s
    if hardware.tensor_parallel > 1 and link is not None and link < _FAST_LINK_BYTES_PER_S:
        low *= 0.6
        why.append("Its accelerators are joined by PCIe, for which no reading was found.")
    if hardware.pipeline_parallel > 1:
        low *= 0.6
        why.append("No reading with pipeline parallelism was found.")
    if hardware.data_parallel > 1 and work.expert_bytes:
        low *= 0.6
        why.append("No reading with experts spread over data-parallel engines was found.")
    more_s = 0.0
    if hardware.tensor_parallel >= _MANY:
        more_s = _UNEXPLAINED_S
        why.append("On eight accelerators first tokens took up to 0.6 s, and no source says why.")
    return Band(low=low, high=measured.high, why=" ".join(why), first_token_more_s=more_s)


def _measured(work: Work, hardware: Hardware) -> Band:
    accelerator = hardware.accelerator
    if accelerator.vendor == "cpu":
        return Band(
            low=0.1,
            high=1.5,
            why="Speed on processors depends on their cores, memory channels and instructions, "
            "none of which is known here.",
        )
    if accelerator.vendor != "nvidia":
        return Band(
            low=0.4 if work.expert_bytes else 0.5,
            high=1.6 if work.expert_bytes else 1.5,
            why="The readings for accelerators that are not NVIDIA's are few, "
            "and lie between .6 and 1.5 of the estimate.",
        )
    if work.expert_bytes:
        return Band(
            low=0.5,
            high=1.5,
            why="The readings of mixtures of experts are few, and lie between .6 and 1.4 of the estimate.",
        )
    if accelerator.flops_4bit is not None:
        return Band(
            low=0.45,
            high=1.3,
            why="The few readings of Blackwell lie between .5 and .9 of the estimate; "
            "its kernels are younger than its numbers.",
        )
    return Band(
        low=0.75,
        high=1.3,
        why="The readings of dense models on NVIDIA lie between .8 and 1.2 of the estimate.",
    )
