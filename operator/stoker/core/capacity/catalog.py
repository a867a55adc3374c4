"""Which accelerators are there, and what does each hold, move, compute and cost?

A table of data, so that a new card is one row. A name is vendor, model and, where several exist, memory;
a slice that NVIDIA's Multi-Instance GPU cuts from a card is the card's name, `-mig-` and the profile:
`nvidia-h100-80gb-mig-3g.40gb`. Other spellings are refused with the right one rather than understood:
the name is stored in objects and compared, and `h100` would be two names for one thing.

Memory is what the driver reports, less than the product's name says: 0.8 of 80 GB is a whole model. Prices
are on-demand list prices with their date, from the middle of what was found: they differ up to fivefold
between vendors (an H100 from 2.69 to 12.29 dollars on 2026-11-09), and `with_prices` puts yours in place.
Rejected: a default for a price that is not known; an advice that counts it as 0 would always win.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from stoker.api.reasons import Reason
from stoker.core.model import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What one accelerator costs."""

    per_hour: float
    currency: str
    as_of: str
    """Date of the price, as 2026-11-01; empty for one that the user gave."""
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One kind of accelerator."""

    name: str
    """As in `accelerator.type`: vendor, model and, where several exist, memory."""
    visible_bytes: int
    """Memory that the driver reports."""
    estimated: bool
    """Whether `visible_bytes` is derived and not read in a log."""
    bandwidth_bytes_per_s: float
    flops_16bit: float
    """Dense operations per second in bfloat16 (float16 where there is no such unit)."""
    flops_8bit: float | None
    """Dense operations per second in fp8; None where there is no such unit."""
    flops_4bit: float | None
    """Dense operations per second in fp4; None where there is no such unit."""
    link_bytes_per_s: float | None
    """To the other accelerators of its node, one direction; None where not found."""
    per_node: int
    """Most accelerators of one node, as usually built."""
    price: Price | None
    """None where no price is known; never taken for 0."""

    @property
    def vendor(self) -> str:
        """`nvidia`, `amd`, `intel`, `google`, or `cpu`."""
        return self.name.partition("-")[0]

    @property
    def doubts(self) -> tuple[str, ...]:
        """What an estimate for it stands on, in a sentence."""
        return (
            (f"The memory of `{self.name}` is derived, and was not read in a log.",) if self.estimated else ()
        )


def accelerator(name: str, *, among: Mapping[str, Accelerator] | None = None) -> Accelerator | Refusal:
    """The accelerator of that name, one of the catalogue or a slice of one; or what was meant instead.

    Example: `h100` -> "There is no accelerator `h100` in the catalogue; did you mean `nvidia-h100-80gb`?"
    """
    rows = ACCELERATORS if among is None else among
    if name in rows:
        return rows[name]
    card, is_slice, profile = name.partition("-mig-")
    if is_slice and card in rows:
        return _slice(rows[card], profile)
    meant = [f"`{known}`" for known in _meant(name)]
    hint = f"did you mean {' or '.join(meant)}?" if meant else f"it has {', '.join(ACCELERATORS)}."
    return _refused(f"There is no accelerator `{name}` in the catalogue; {hint}")


def with_prices(
    per_hour: Mapping[str, float], *, currency: str = "USD"
) -> Mapping[str, Accelerator] | Refusal:
    """The catalogue with the prices of your own bills (of one accelerator for one hour) in it.

    Example: `{"nvidia-l40s": 0.9}` -> the catalogue, its L40S at 0.9 USD, all else as it was.
    """
    rows = dict(ACCELERATORS)
    for name, amount in per_hour.items():
        row = accelerator(name, among=rows)
        if isinstance(row, Refusal):
            return row
        if not 0 < amount < 1_000_000:
            return _refused(
                f"The price of `{name}` is {amount:g} an hour; give one above 0, below 1,000,000."
            )
        price = Price(per_hour=amount, currency=currency, as_of="", source="given")
        rows[name] = replace(row, price=price)
    return rows


def _slice(card: Accelerator, profile: str) -> Accelerator | Refusal:
    """A slice gets eighths (or quarters) of the memory and its bandwidth, sevenths of the processors.

    It costs the share of memory that it takes, so that slices which fill a card cost the card.
    Source: NVIDIA's MIG user guide, "Supported MIG Profiles".

    Example: `3g.40gb` of an H100: 39.5 GiB, 4/8 of 3,350 GB/s, 3/7 of 989 TFLOPS, half the price.
    """
    profiles = _MIG_GIB.get(card.name, {})
    if profile not in profiles:
        known = f"it has {', '.join(profiles)}" if profiles else "it can't be cut into slices"
        return _refused(f"There is no slice `{profile}` of `{card.name}`; {known}.")
    visible = round(profiles[profile] * 1024**3)
    memory = round(visible / card.visible_bytes * 8) / 8
    whole = max(int(known.partition("g.")[0]) for known in profiles)
    compute = int(profile.partition("g.")[0]) / whole
    return replace(
        card,
        name=f"{card.name}-mig-{profile}",
        visible_bytes=visible,
        bandwidth_bytes_per_s=card.bandwidth_bytes_per_s * memory,
        flops_16bit=card.flops_16bit * compute,
        flops_8bit=card.flops_8bit and card.flops_8bit * compute,
        flops_4bit=card.flops_4bit and card.flops_4bit * compute,
        link_bytes_per_s=None,
        per_node=1,
        price=card.price and replace(card.price, per_hour=card.price.per_hour * memory),
    )


def _meant(written: str) -> list[str]:
    """Catalogue names that somebody may have meant, by model first and then by spelling.

    The longest model in the text wins (`l40s` is no L4), then those whose memory is in it too. So the
    node label `NVIDIA-A100-SXM4-80GB` leads to `nvidia-a100-80gb`, and `a100` to both sizes.
    """
    compact = _letters(written)
    models = {name: _model(name) for name in ACCELERATORS}
    found = {name: model for name, model in models.items() if model in compact}
    if found:
        longest = max(map(len, found.values()))
        names = [name for name, model in found.items() if len(model) == longest]
        return [name for name in names if (m := _MEMORY.search(name)) and m[1] in compact] or names
    close = get_close_matches(compact, {*models.values(), *map(_letters, models)}, n=1)
    return [name for name, model in models.items() if close and close[0] in (model, _letters(name))]


_MEMORY = re.compile(r"-(\d+g)b$")


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _model(name: str) -> str:
    """The name without vendor and memory, letters only: `nvidia-rtx-4090` -> `rtx4090`."""
    return _letters(_MEMORY.sub("", name).partition("-")[2] or name)


def _refused(message: str) -> Refusal:
    return Refusal(reason=Reason.UNKNOWN_ACCELERATOR, message=message)


def _list_price(per_hour: float, as_of: str, source: str) -> Price:
    return Price(per_hour=per_hour, currency="USD", as_of=as_of, source=source)


def _row(
    name: str,
    gib: float,
    gb_per_s: float,
    tflops: tuple[float, float | None, float | None],
    link_gb_per_s: float | None,
    per_node: int,
    price: Price | None,
    *,
    estimated: bool = False,
) -> Accelerator:
    bits_16, bits_8, bits_4 = tflops
    return Accelerator(
        name=name,
        visible_bytes=round(gib * 1024**3),
        estimated=estimated,
        bandwidth_bytes_per_s=gb_per_s * 1e9,
        flops_16bit=bits_16 * 1e12,
        flops_8bit=bits_8 and bits_8 * 1e12,
        flops_4bit=bits_4 and bits_4 * 1e12,
        link_bytes_per_s=link_gb_per_s and link_gb_per_s * 1e9,
        per_node=per_node,
        price=price,
    )


# As others quoted these lists on those days.
_LAMBDA = ("2026-09-20", "lambda.ai/instances, nodes of eight")
_COREWEAVE = ("2026-09-20", "coreweave.com/pricing, nodes of eight")
_HYPERSTACK = ("2026-08-26", "hyperstack.cloud/gpu-pricing")
_DIGITALOCEAN = ("2026-09-26", "DigitalOcean GPU droplets")
_AWS = ("2026-09-22", "AWS EC2, us-east-1, with the machine's 4 processors")

_GH200 = _list_price(2.29, "2026-09-20", "lambda.ai/instances")
_RTX_4090 = _list_price(0.39, "2026-09-20", "akash.network/pricing/gpus, lowest offer")
_MI355X = _list_price(2.59, "2026-09-26", "Vultr, nodes of eight")
_TPU_V5E = _list_price(1.20, "2026-10-06", "cloud.google.com/tpu/pricing, us-west4")
_TPU_V6E = _list_price(2.70, "2026-08-01", "cloud.google.com/tpu/pricing, us-east5")

# Visible memory: what published logs show ("GPU 0 has a total capacity of ..." of torch, "of 15.75G hbm" of
# XLA), the least of several. Bandwidth and operations: the vendors' pages as collected in
# stas00/ml-engineering, compute/accelerator/README.md @7bc7c30; without structured sparsity. Of an A10G only
# the memory is published by its vendor; its operations are taken as half of an A10's. RTX PRO 6000: the
# server edition. Gaudi 3: at the shipped clock. The memory of a GH200 144 GB is taken from the H200, which
# has the same stacks; Gaudi 3's from its 128 GB less what a Gaudi 2 keeps for itself (94.6 of 96).
_ROWS = (
    #    name                   GiB     GB/s   TFLOPS in 16, 8, 4 bit   link  node  price
    _row("nvidia-t4", 14.56, 300, (65, None, None), 16, 8, _list_price(0.526, *_AWS)),
    _row("nvidia-l4", 22.03, 300, (121, 242, None), 31, 8, _list_price(0.805, *_AWS)),
    _row("nvidia-l40s", 44.42, 864, (362, 733, None), 31, 8, _list_price(2.25, *_COREWEAVE)),
    _row("nvidia-a10g", 21.95, 600, (62.5, None, None), 31, 8, _list_price(1.006, *_AWS)),
    _row("nvidia-a100-40gb", 39.38, 1555, (312, None, None), 300, 8, _list_price(1.99, *_LAMBDA)),
    _row("nvidia-a100-80gb", 79.15, 2039, (312, None, None), 300, 8, _list_price(2.79, *_LAMBDA)),
    _row("nvidia-h100-80gb", 79.18, 3350, (989, 1979, None), 450, 8, _list_price(3.99, *_LAMBDA)),
    _row("nvidia-h200", 139.8, 4800, (989, 1979, None), 450, 8, _list_price(4.47, *_DIGITALOCEAN)),
    _row("nvidia-b200", 178.35, 8000, (2250, 4500, 9000), 900, 8, _list_price(6.69, *_LAMBDA)),
    _row("nvidia-gh200-96gb", 94.5, 4000, (989, 1979, None), 450, 1, _GH200),
    _row("nvidia-gh200-144gb", 139.8, 4800, (989, 1979, None), 450, 1, None, estimated=True),
    _row("nvidia-rtx-3090", 23.58, 936, (71, None, None), 31, 8, None),
    _row("nvidia-rtx-4090", 23.53, 1008, (165, 330, None), 31, 8, _RTX_4090),
    _row("nvidia-rtx-pro-6000", 95.01, 1600, (500, 1000, 2000), 63, 8, _list_price(1.85, *_HYPERSTACK)),
    _row("amd-mi300x", 191.69, 5300, (1307, 2615, None), 448, 8, _list_price(2.59, *_DIGITALOCEAN)),
    _row("amd-mi325x", 255.69, 6000, (1300, 2610, None), 448, 8, _list_price(3.80, *_DIGITALOCEAN)),
    _row("amd-mi355x", 287.98, 8000, (2500, 5000, 10_000), None, 8, _MI355X),
    _row("intel-gaudi3", 126.1, 3700, (1677, 1677, None), 525, 8, None, estimated=True),
    _row("google-tpu-v5e", 15.75, 819, (197, None, None), 200, 8, _TPU_V5E),
    _row("google-tpu-v6e", 31.25, 1638, (918, 918, None), 400, 8, _TPU_V6E),
    # One NUMA node of a server: eight channels of DDR5-4800, 32 cores with AVX-512; a node has two of them.
    # Its memory is that of the container: who knows it puts it in place of these 64 GiB.
    _row("cpu", 64, 307, (8, None, None), None, 2, None, estimated=True),
)

COUNTS = (1, 2, 4, 8)
"""Accelerators of one instance that advice tries: powers of two, which divide the heads of most models."""
ACCELERATORS: Mapping[str, Accelerator] = {row.name: row for row in _ROWS}

# GiB of each profile as `nvidia-smi mig -lgip` prints them.
_MIG_A100_40 = {"1g.5gb": 4.75, "2g.10gb": 9.62, "3g.20gb": 19.5, "4g.20gb": 19.5, "7g.40gb": 39.25}
_MIG_A100_80 = {
    "1g.10gb": 9.5,
    "1g.20gb": 19.5,
    "2g.20gb": 19.5,
    "3g.40gb": 39.25,
    "4g.40gb": 39.25,
    "7g.80gb": 78.75,
}
_MIG_H100 = {
    "1g.10gb": 9.75,
    "1g.20gb": 19.5,
    "2g.20gb": 19.5,
    "3g.40gb": 39.25,
    "4g.40gb": 39.25,
    "7g.80gb": 79.0,
}
_MIG_GIB: Mapping[str, Mapping[str, float]] = {
    "nvidia-a100-40gb": _MIG_A100_40,
    "nvidia-a100-80gb": _MIG_A100_80,
    "nvidia-h100-80gb": _MIG_H100,
    "nvidia-h200": {"1g.18gb": 16.0, "2g.35gb": 32.5, "3g.71gb": 69.5, "4g.71gb": 69.5, "7g.141gb": 139.8},
    "nvidia-b200": {"1g.23gb": 20.5, "2g.45gb": 44.25, "3g.90gb": 89.0, "4g.90gb": 89.0, "7g.180gb": 178.35},
    "nvidia-gh200-96gb": {"2g.24gb": 23.0, "3g.48gb": 46.5, "4g.48gb": 46.5, "7g.96gb": 93.0},
    "nvidia-rtx-pro-6000": {"1g.24gb": 23.62, "2g.48gb": 47.38, "4g.96gb": 95.0},
}
