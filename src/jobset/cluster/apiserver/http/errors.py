"""From an error to the answer that carries it: a metav1.Status as Kubernetes' server writes it, or plain text. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable

from jobset.api.errors import ApiError, InternalError, MethodNotAllowed, NotAcceptable, NotFound, UnsupportedMediaType
from jobset.api.meta import Object

NOT_FOUND_TEXT = "404 page not found\n"


class NoSuchPage(Exception):
    """The path belongs to no API; answered with text."""


class UnknownRepresentation(NotAcceptable):
    """The client takes none of the media types that the server has at all."""


class UnknownMediaType(UnsupportedMediaType):
    """The body is of a media type that no such request takes."""


def unserved() -> ApiError:
    return NotFound("the server could not find the requested resource")


def method_not_allowed() -> ApiError:
    return MethodNotAllowed("the server does not allow this method on the requested resource")


def internal_error(error: Exception) -> ApiError:
    """What a client is told of a defect; the traceback goes to the log."""
    return InternalError(f"Internal error occurred: {type(error).__name__}")


def status_of(error: ApiError) -> Object:
    """Refusals from before an object was looked at have empty details; others have none unless they say something."""
    status = error.to_status()
    about_requests = isinstance(error, NotFound | MethodNotAllowed | UnknownRepresentation | UnknownMediaType)
    if about_requests and "details" not in status:
        code = status.pop("code")
        status |= {"details": {}, "code": code}
    return status


def headers_of(error: ApiError) -> tuple[tuple[str, str], ...]:
    return (("Retry-After", str(error.retry_after_s)),) if error.retry_after_s is not None else ()


def warning_headers(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """299 is the code for warnings that concern the request itself."""
    return tuple(("Warning", f"299 - {json.dumps(text)}") for text in texts)
