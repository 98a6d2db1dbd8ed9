"""The formats that only Kubernetes' own objects have: configuration keys, variables, ports, addresses. Pure.

Names and labels are in api/name_rules.py. A function gives the problems in Kubernetes' words; none for good input.
"""

from __future__ import annotations

import re
from ipaddress import ip_address

_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_CONFIG_KEY_HELP = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    f"(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '{_CONFIG_KEY}')"
)
CONFIG_KEY_MAX = 253
PORT_NAME_MAX = 15


def config_key(text: str) -> list[str]:
    """A key of a ConfigMap or Secret: also a file name."""
    problems = [f"must be no more than {CONFIG_KEY_MAX} characters"] if len(text) > CONFIG_KEY_MAX else []
    if re.fullmatch(_CONFIG_KEY, text) is None:
        problems.append(_CONFIG_KEY_HELP)
    if text in (".", ".."):
        problems.append(f"must not be '{text}'")
    elif text.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def environment_name(text: str) -> list[str]:
    if text and all(" " <= char <= "~" and char != "=" for char in text):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def port_name(text: str) -> list[str]:
    problems = []
    if len(text) > PORT_NAME_MAX:
        problems.append(f"must be no more than {PORT_NAME_MAX} characters")
    if re.fullmatch("[-a-z0-9]+", text) is None:
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        problems.append("must contain at least one letter (a-z)")
    if "--" in text:
        problems.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def port_number(port: int) -> list[str]:
    return [] if 1 <= port <= 65535 else ["must be between 1 and 65535, inclusive"]


def port_number_or_name(port: int | str) -> list[str]:
    return port_number(port) if isinstance(port, int) else port_name(port)


def address(text: str) -> list[str]:
    try:
        ip_address(text)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return []
