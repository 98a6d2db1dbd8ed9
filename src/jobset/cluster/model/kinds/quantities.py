"""How Kubernetes writes a quantity it was given: 1024Mi becomes 1Gi, 0.5 becomes 500m. Pure.

The notation of the input stays (binary, decimal, exponent); the number is written with the largest unit that leaves
no fraction.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any

from jobset.api.meta import Object
from jobset.api.quantity import parse_quantity
from jobset.cluster.model.kinds.copy_on_write import put

_DECIMAL_SUFFIXES = {
    -9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E",
}  # fmt: skip
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_NANO = Decimal("1e-9")
_MILLI = Decimal("1e-3")


@lru_cache(maxsize=4096)
def canonical_quantity(text: str | int | float) -> str:
    """The canonical text of a quantity. What is no quantity comes back as text for validation to name."""
    written = str(text)
    try:
        value = parse_quantity(text)
    except ValueError:
        return written
    value = value.quantize(_NANO, rounding=ROUND_CEILING) if value.normalize().as_tuple().exponent < -9 else value  # type: ignore[operator]
    if written.endswith("i") and not -1024 < value < 1024:
        return _write_binary(value)
    return _write_decimal(value, exponents="e" in written or ("E" in written and not written.endswith("E")))


@lru_cache(maxsize=4096)
def resource_quantity(text: str | int | float) -> str:
    """Canonical text of an amount in a resource list: those are rounded up to thousandths."""
    try:
        value = parse_quantity(text)
    except ValueError:
        return str(text)
    return canonical_quantity(text) if value % _MILLI == 0 else _write_decimal(-(-value // _MILLI) * _MILLI, False)


def _write_binary(value: Decimal) -> str:
    number, power = int(value.to_integral_value(rounding=ROUND_CEILING)), 0
    while number % 1024 == 0 and power < len(_BINARY_SUFFIXES) - 1:
        number, power = number // 1024, power + 1
    return f"{number}{_BINARY_SUFFIXES[power]}"


def _write_decimal(value: Decimal, exponents: bool) -> str:
    if value == 0:
        return "0"
    exponent = -9
    number = int(value.scaleb(9))
    while number % 1000 == 0 and exponent < 18:
        number, exponent = number // 1000, exponent + 3
    if exponents:
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_SUFFIXES[exponent]}"


def canonical_resources(amounts: Object) -> Object:
    """A resource list with every amount in canonical text."""
    changed = {name: resource_quantity(amount) for name, amount in amounts.items()}
    return amounts if changed == amounts else changed


def canonical_at(obj: Object, *keys: str) -> Object:
    """Write the resource lists at these keys canonically, where present."""
    for key in keys:
        amounts: Any = obj.get(key)
        if amounts:
            obj = put(obj, key, canonical_resources(amounts))
    return obj
