"""What Kubernetes accepts as a name, a label value, a qualified name; each check gives the problems as sentences. Pure.

The sentences are the ones that users know from Kubernetes, so that they can be searched for. An empty list means: fine.
"""

from __future__ import annotations

import re
from functools import cache

_LABEL_1123 = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_1123 = rf"{_LABEL_1123}(\.{_LABEL_1123})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_QUALIFIED_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_URL_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

LABEL_MAX = 63
SUBDOMAIN_MAX = 253


def _too_long(limit: int, unit: str = "characters") -> str:
    return f"must be no more than {limit} {unit}"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


def _matches(pattern: str, text: str) -> bool:
    return _compiled(pattern).fullmatch(text) is not None


def dns_label_problems(text: str) -> list[str]:
    """RFC 1123 label: what most parts of a host name must be."""
    problems = [_too_long(LABEL_MAX)] if len(text) > LABEL_MAX else []
    if not _matches(_LABEL_1123, text):
        problems.append(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and"
            f" end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
            f" '{_LABEL_1123}')"
        )
    return problems


def dns_label_1035_problems(text: str) -> list[str]:
    """RFC 1035 label: as RFC 1123, but starts with a letter. Services, and all names JobSet generates."""
    problems = [_too_long(LABEL_MAX)] if len(text) > LABEL_MAX else []
    if not _matches(_LABEL_1035, text):
        problems.append(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic"
            " character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for"
            f" validation is '{_LABEL_1035}')"
        )
    return problems


def dns_subdomain_problems(text: str) -> list[str]:
    """RFC 1123 subdomain: labels joined by dots. The names of most objects."""
    problems = [_too_long(SUBDOMAIN_MAX)] if len(text) > SUBDOMAIN_MAX else []
    if not _matches(_SUBDOMAIN_1123, text):
        problems.append(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must"
            " start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
            f" '{_SUBDOMAIN_1123}')"
        )
    return problems


def label_value_problems(text: str) -> list[str]:
    problems = [_too_long(LABEL_MAX, "bytes")] if len(text.encode()) > LABEL_MAX else []
    if not _matches(_LABEL_VALUE, text):
        problems.append(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must"
            " start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for"
            f" validation is '{_LABEL_VALUE}')"
        )
    return problems


def qualified_name_problems(text: str) -> list[str]:
    """[prefix/]name: keys of labels and annotations, extended resources, finalizers."""
    prefix, slash, name = text.partition("/")
    if not slash:
        prefix, name = "", text
    if "/" in name:
        return [
            "a qualified name must be a name with an optional DNS subdomain prefix and '/' (e.g. 'example.com/Name')"
        ]
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems.extend(f"prefix part {problem}" for problem in dns_subdomain_problems(prefix))
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > LABEL_MAX:
        problems.append(f"name part {_too_long(LABEL_MAX, 'bytes')}")
    if not _matches(_QUALIFIED_NAME, name):
        problems.append(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
            " alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
            f" '{_QUALIFIED_NAME}')"
        )
    return problems


def domain_prefixed_path_problems(text: str) -> list[str]:
    """domain/path, such as `managedBy` takes. The empty text is the caller's to refuse."""
    domain, slash, path = text.partition("/")
    if not slash or not domain or not path:
        return ['must be a domain-prefixed path (such as "acme.io/foo")']
    problems = [f"the domain {problem}" for problem in dns_subdomain_problems(domain)]
    if not _matches(_URL_PATH, path):
        problems.append(f"the path after the first '/' must match '{_URL_PATH}'")
    return problems
