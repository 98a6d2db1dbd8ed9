"""Kubernetes quantities such as 100m, 1.5Gi, 12e3: parse, compare, write. Exact arithmetic. Pure."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

_PATTERN = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?\d+))?", re.ASCII)
_BINARY = {suffix: Decimal(1024) ** (power + 1) for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))}
_DECIMAL = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal(10**3), "M": Decimal(10**6),
    "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
}  # fmt: skip


@lru_cache(maxsize=4096)
def parse_quantity(text: str | int | float) -> Decimal:
    """The value of a quantity in its base unit (cores, bytes, pieces). Raises ValueError."""
    match = _PATTERN.fullmatch(str(text))
    if match is None:
        raise ValueError(
            f"{text!r} is not a quantity: a number with an optional suffix (n u m k M G T P E, Ki Mi Gi Ti Pi Ei, e3)"
        )
    sign, number, binary, decimal, exponent = match.groups()
    value = Decimal(number)
    if binary:
        value *= _BINARY[binary]
    elif decimal:
        value *= _DECIMAL[decimal]
    elif exponent:
        if abs(int(exponent)) > 30:
            raise ValueError(f"{text!r} is out of range")
        value = value.scaleb(int(exponent))
    return -value if sign == "-" else value


def parse_bytes(text: str | int | float) -> int:
    """A quantity of bytes, rounded up to whole ones. Raises ValueError."""
    return int(parse_quantity(text).to_integral_value(rounding=ROUND_CEILING))


def parse_milli(text: str | int | float) -> int:
    """A quantity in thousandths, rounded up: CPU in millicores. Raises ValueError."""
    return int((parse_quantity(text) * 1000).to_integral_value(rounding=ROUND_CEILING))


def same_quantity(one: str | int | float, other: str | int | float) -> bool:
    """Equal by value (1 and 1000m); text that is no quantity is compared as text."""
    try:
        return parse_quantity(one) == parse_quantity(other)
    except ValueError:
        return one == other
