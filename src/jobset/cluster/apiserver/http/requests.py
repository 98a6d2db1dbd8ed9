"""A request and its answer, free of any HTTP library: what the front door hands on and sends back. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from jobset.cluster.apiserver.http.authentication import ADMIN, User
from jobset.cluster.apiserver.http.paths import Query, RequestInfo

TEXT = "text/plain; charset=utf-8"


@dataclass(slots=True)
class Request:
    """`user` and `body` are filled in as they become known."""

    method: str
    info: RequestInfo
    query: Query
    accept: str = ""
    content_type: str = ""
    user_agent: str = ""
    if_none_match: str = ""
    body: bytes = b""
    user: User = ADMIN
    warnings: list[str] = field(default_factory=list)
    """Texts for Warning headers, gathered while the request is answered."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()
