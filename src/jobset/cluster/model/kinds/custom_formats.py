"""The string formats that a custom resource's schema may ask for. Unknown formats pass, as in Kubernetes. Pure."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable
from datetime import date, datetime
from ipaddress import IPv4Address, IPv6Address, ip_network

_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_HOSTNAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,62})?)*\.?", re.ASCII)
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:|/)[^\s]*", re.ASCII)
_MAC = re.compile(r"([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}", re.ASCII)
_DURATION = re.compile(
    r"[+-]?(\d+(\.\d+)?(ns|us|µs|ms|s|m|h|d|w))+|\d+\s*(nanoseconds?|seconds?|minutes?|hours?|days?|weeks?)"
)


def _reads(read: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except (ValueError, NotBase64):
            return False
        return True

    return check


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def _is_date_time(text: str) -> bool:
    return _DATE_TIME.fullmatch(text) is not None and _reads(datetime.fromisoformat)(text.upper())


FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": _is_date_time,
    "datetime": _is_date_time,
    "date": _reads(date.fromisoformat),
    "byte": _reads(lambda text: b64decode(text, validate=True)),
    "ipv4": _reads(IPv4Address),
    "ipv6": _reads(IPv6Address),
    "cidr": _reads(lambda text: ip_network(text, strict=False)),
    "uuid": _matches(_UUID),
    "email": _matches(_EMAIL),
    "hostname": _matches(_HOSTNAME),
    "mac": _matches(_MAC),
    "uri": _matches(_URI),
    "duration": _matches(_DURATION),
}
