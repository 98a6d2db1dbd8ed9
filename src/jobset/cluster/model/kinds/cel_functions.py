"""Functions that Kubernetes adds to CEL: lists, sets, regular expressions, URLs, addresses, quantities, versions. Pure.

The interpreter knows no types of ours: a quantity, an address or a version is a map that says what it is, in canonical
form, so that == compares by value. An implementation that raises ValueError makes the rule fail with its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import pairwise
from typing import Any, TypeAlias

import re2
from msgspec import Struct

from jobset.api.meta import Object
from jobset.api.quantity import parse_quantity

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network


class Function(Struct, frozen=True):
    """One overload. Parameters and result are names of CEL types; the target of a method is its first parameter."""

    name: str
    id: str
    parameters: tuple[str, ...]
    result: str
    implementation: Callable[..., Any]
    is_method: bool = False


def _function(name: str, parameters: str, result: str, implementation: Callable[..., Any]) -> Function:
    types = tuple(parameters.split())
    return Function(name, "_".join((name.replace(".", "_"), *types)), types, result, implementation)


def _method(name: str, parameters: str, result: str, implementation: Callable[..., Any]) -> Function:
    types = tuple(parameters.split())
    return Function(name, "_".join((*types[:1], name, *types[1:])), types, result, implementation, is_method=True)


def _is(read: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


# Lists and sets


def _is_sorted(items: list[Any]) -> bool:
    return all(left <= right for left, right in pairwise(items))


def _least(items: list[Any]) -> Any:
    if not items:
        raise ValueError("min called on empty list")
    return min(items)


def _greatest(items: list[Any]) -> Any:
    if not items:
        raise ValueError("max called on empty list")
    return max(items)


def _index(items: list[Any], item: Any) -> int:
    return items.index(item) if item in items else -1


def _last_index(items: list[Any], item: Any) -> int:
    return len(items) - 1 - items[::-1].index(item) if item in items else -1


def _contains(items: list[Any], others: list[Any]) -> bool:
    return all(item in items for item in others)


def _lists() -> Iterator[Function]:
    yield _method("isSorted", "list", "bool", _is_sorted)
    yield _method("sum", "list", "dyn", sum)
    yield _method("min", "list", "dyn", _least)
    yield _method("max", "list", "dyn", _greatest)
    yield _method("indexOf", "list dyn", "int", _index)
    yield _method("lastIndexOf", "list dyn", "int", _last_index)
    yield _function("sets.contains", "list list", "bool", _contains)
    yield _function("sets.equivalent", "list list", "bool", lambda a, b: _contains(a, b) and _contains(b, a))
    yield _function("sets.intersects", "list list", "bool", lambda a, b: any(item in a for item in b))


# Regular expressions and URLs


def _pattern(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        raise ValueError(f"Illegal regex: {text}") from error


def _find(text: str, pattern: str) -> str:
    found = _pattern(pattern).search(text)
    return found.group(0) if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match.group(0) for match in _pattern(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#.*)?|(/[^?#\s]*)(?:\?([^#]*))?")


def _url(text: str) -> Object:
    """Absolute, or a path from the root."""
    match = _URL.fullmatch(text)
    if match is None or any(sign.isspace() for sign in text):
        raise ValueError(f"URL parse error during conversion from string: {text!r}")
    scheme, authority, path, query, rooted, rooted_query = match.groups()
    host = (authority or "").rpartition("@")[2]
    name, port = host, ""
    if found := re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::(\d*))?", host):
        name, port = found.group(1), found.group(2) or ""
    return {
        "url": text,
        "scheme": scheme or "",
        "host": host,
        "hostname": name.strip("[]"),
        "port": port,
        "path": path or rooted or "",
        "query": query or rooted_query or "",
    }


def _query(url: Object) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for part in filter(None, url["query"].split("&")):
        key, _, value = part.partition("=")
        result.setdefault(_unescaped(key), []).append(_unescaped(value))
    return result


def _unescaped(text: str) -> str:
    raw = re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes([int(found.group(1), 16)]), text.replace("+", " ").encode())
    return raw.decode(errors="replace")


def _texts() -> Iterator[Function]:
    yield _method("find", "string string", "string", _find)
    yield _method("findAll", "string string", "list", _find_all)
    yield _method("findAll", "string string int", "list", _find_all)
    yield _function("url", "string", "map", _url)
    yield _function("isURL", "string", "bool", _is(_url))
    for name, key in (
        ("getScheme", "scheme"), ("getHost", "host"), ("getHostname", "hostname"), ("getPort", "port"),
        ("getEscapedPath", "path"),
    ):  # fmt: skip
        yield _method(name, "map", "string", lambda url, key=key: url[key])
    yield _method("getQuery", "map", "map", _query)


# Addresses and networks


def _ip(text: str) -> Object:
    if "%" in text or (_read_ip(text).version == 6 and "." in text):
        raise ValueError(f"IP Address {text!r} parse error during conversion from string")
    return {"ip": str(_read_ip(text))}


def _read_ip(text: str) -> Address:
    return ip_address(text)


def _of_ip(value: Object) -> Address:
    return ip_address(value["ip"])


def _cidr(text: str) -> Object:
    if "/" not in text:
        raise ValueError(f"network address parse error during conversion from string: {text!r}")
    address, _, length = text.partition("/")
    ip_network(text, strict=False)
    return {"cidr": f"{_ip(address)['ip']}/{int(length)}"}


def _of_cidr(value: Object) -> Network:
    return ip_network(value["cidr"], strict=False)


def _holds_ip(network: Object, address: Object | str) -> bool:
    given = _read_ip(address) if isinstance(address, str) else _of_ip(address)
    return given in _of_cidr(network)


def _holds_cidr(network: Object, other: Object | str) -> bool:
    outer, inner = _of_cidr(network), _of_cidr(_cidr(other) if isinstance(other, str) else other)
    if isinstance(outer, IPv4Network) and isinstance(inner, IPv4Network):
        return inner.subnet_of(outer)
    if isinstance(outer, IPv6Network) and isinstance(inner, IPv6Network):
        return inner.subnet_of(outer)
    return False


def _is_global_unicast(value: Object) -> bool:
    address = _of_ip(value)
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and str(address) != "255.255.255.255"


def _is_link_local_multicast(value: Object) -> bool:
    address = _of_ip(value)
    return address in (ip_network("224.0.0.0/24") if address.version == 4 else ip_network("ff02::/16"))


def _addresses() -> Iterator[Function]:
    yield _function("ip", "string", "map", _ip)
    yield _function("isIP", "string", "bool", _is(_ip))
    yield _function("ip.isCanonical", "string", "bool", lambda text: _ip(text)["ip"] == text)
    yield _method("family", "map", "int", lambda ip: _of_ip(ip).version)
    yield _method("isUnspecified", "map", "bool", lambda ip: _of_ip(ip).is_unspecified)
    yield _method("isLoopback", "map", "bool", lambda ip: _of_ip(ip).is_loopback)
    yield _method("isLinkLocalMulticast", "map", "bool", _is_link_local_multicast)
    yield _method("isLinkLocalUnicast", "map", "bool", lambda ip: _of_ip(ip).is_link_local)
    yield _method("isGlobalUnicast", "map", "bool", _is_global_unicast)
    yield _function("cidr", "string", "map", _cidr)
    yield _function("isCIDR", "string", "bool", _is(_cidr))
    for parameter in ("map", "string"):
        yield _method("containsIP", f"map {parameter}", "bool", _holds_ip)
        yield _method("containsCIDR", f"map {parameter}", "bool", _holds_cidr)
    yield _method("ip", "map", "map", lambda cidr: {"ip": cidr["cidr"].partition("/")[0]})
    yield _method("masked", "map", "map", lambda cidr: {"cidr": str(_of_cidr(cidr))})
    yield _method("prefixLength", "map", "int", lambda cidr: _of_cidr(cidr).prefixlen)
    yield _function("string", "map", "string", lambda value: next(iter(value.values())))


# Quantities and semantic versions


def _quantity(value: Decimal) -> Object:
    return {"quantity": format(value.normalize(), "f")}


def _of_quantity(value: Object) -> Decimal:
    return Decimal(value["quantity"])


def _amount(value: Object | int) -> Decimal:
    return Decimal(value) if isinstance(value, int) else _of_quantity(value)


def _whole(value: Object) -> int:
    amount = _of_quantity(value)
    if amount != int(amount) or not -(1 << 63) <= amount < 1 << 63:
        raise ValueError("cannot convert value to integer")
    return int(amount)


_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)
_LOOSE = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(.*)", re.ASCII)


def _semver(text: str, normalize: bool = False) -> Object:
    if normalize and (loose := _LOOSE.fullmatch(text)):
        numbers = [str(int(number or 0)) for number in loose.groups()[:3]]
        text = ".".join(numbers) + loose.group(4)
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise ValueError(f"No Major.Minor.Patch elements found in {text!r}")
    major, minor, patch, before = match.groups()
    return {"semver": [int(major), int(minor), int(patch)], "before": (before or "").split(".") if before else []}


def _rank(version: Object) -> tuple[Any, ...]:
    """Ordered as versions are: one before a release is less than the release, its numbers less than its words."""
    before = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in version["before"]]
    return (*version["semver"], not before, before)


def _compared(one: Object, other: Object) -> int:
    if "semver" in one and "semver" in other:
        left, right = _rank(one), _rank(other)
        return (left > right) - (left < right)
    difference = _of_quantity(one) - _of_quantity(other)
    return (difference > 0) - (difference < 0)


def _ordered() -> Iterator[Function]:
    yield _function("quantity", "string", "map", lambda text: _quantity(parse_quantity(text)))
    yield _function("isQuantity", "string", "bool", _is(parse_quantity))
    yield _method("isInteger", "map", "bool", lambda value: _of_quantity(value) == int(_of_quantity(value)))
    yield _method("asInteger", "map", "int", _whole)
    yield _method("asApproximateFloat", "map", "double", lambda value: float(_of_quantity(value)))
    yield _method("sign", "map", "int", lambda value: _compared(value, {"quantity": "0"}))
    for parameter in ("map", "int"):
        yield _method("add", f"map {parameter}", "map", lambda a, b: _quantity(_of_quantity(a) + _amount(b)))
        yield _method("sub", f"map {parameter}", "map", lambda a, b: _quantity(_of_quantity(a) - _amount(b)))
    yield _method("compareTo", "map map", "int", _compared)
    yield _method("isLessThan", "map map", "bool", lambda a, b: _compared(a, b) < 0)
    yield _method("isGreaterThan", "map map", "bool", lambda a, b: _compared(a, b) > 0)
    yield _function("semver", "string", "map", _semver)
    yield _function("semver", "string bool", "map", _semver)
    yield _function("isSemver", "string", "bool", _is(_semver))
    yield _function("isSemver", "string bool", "bool", lambda text, loose: _is(lambda one: _semver(one, loose))(text))
    for index, name in enumerate(("major", "minor", "patch")):
        yield _method(name, "map", "int", lambda version, index=index: version["semver"][index])


FUNCTIONS = (*_lists(), *_texts(), *_addresses(), *_ordered())
