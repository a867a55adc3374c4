"""How much is `1500m` or `2Gi`? Kubernetes' resource quantities as exact numbers.

The API server writes a quantity in its own normal form: `1000m` comes back as `1`, `1024Mi` as
`1Gi`. Compared as text, an object would differ from itself for ever.
"""

import re
from decimal import Decimal

_FACTORS = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{letter: Decimal(1000) ** (i + 1) for i, letter in enumerate("kMGTPE")},
    **{f"{letter}i": Decimal(1024) ** (i + 1) for i, letter in enumerate("KMGTPE")},
}
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)(?P<suffix>[numkMGTPE]?|[KMGTPE]i)"
)


def parse_quantity(value: object) -> Decimal | None:
    """The number that a quantity stands for; None when it is none.

    Source: `k8s.io/apimachinery/pkg/api/resource`, type `Quantity`.

    Example: `1500m` -> 1.5; `2Ki` -> 2048.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    match = _QUANTITY.fullmatch(str(value))
    return Decimal(match["number"]) * _FACTORS[match["suffix"]] if match else None
