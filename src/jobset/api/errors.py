"""API errors by reason, as a Kubernetes API server answers them (metav1.Status).

Raised by both client adapters and by the embedded API server; the HTTP layer turns them into bodies and back. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Cause:
    """One problem of an Invalid or Conflict answer; `reason` is a word such as FieldValueInvalid."""

    reason: str
    message: str
    field: str = ""

    def to_dict(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.message, **({"field": self.field} if self.field else {})}


class ApiError(Exception):
    """An unsuccessful answer of an API server. `code` is the HTTP status, `reason` the machine-readable word."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        causes: Sequence[Cause] = (),
        group: str = "",
        kind: str = "",
        name: str = "",
        uid: str = "",
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.causes = tuple(causes)
        self.group = group
        self.kind = kind
        self.name = name
        self.uid = uid
        self.retry_after_s = retry_after_s

    def to_status(self) -> dict[str, Any]:
        """The metav1.Status object of this error."""
        named = {"name": self.name, "group": self.group, "kind": self.kind, "uid": self.uid}
        details: dict[str, Any] = {key: value for key, value in named.items() if value}
        if self.causes:
            details["causes"] = [cause.to_dict() for cause in self.causes]
        if self.retry_after_s is not None:
            details["retryAfterSeconds"] = self.retry_after_s
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if details:
            status["details"] = details
        status["code"] = self.code
        return status


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    code, reason = 404, "NotFound"


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class Conflict(ApiError):
    """The object changed since it was read, a precondition failed, or another field manager owns the field."""

    code, reason = 409, "Conflict"


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"


class Gone(ApiError):
    """The resourceVersion asked for is older than what the server remembers: list again."""

    code, reason = 410, "Expired"


class RequestEntityTooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class InternalError(ApiError):
    code, reason = 500, "InternalError"


class Unavailable(ApiError):
    """The server cannot answer now (503), or could not be reached."""

    code, reason = 503, "ServiceUnavailable"


class Timeout(ApiError):
    code, reason = 504, "Timeout"


_BY_REASON: dict[str, type[ApiError]] = {
    error.reason: error
    for error in (
        BadRequest, Unauthorized, Forbidden, NotFound, MethodNotAllowed, NotAcceptable, Conflict, AlreadyExists, Gone,
        RequestEntityTooLarge, UnsupportedMediaType, Invalid, TooManyRequests, InternalError, Unavailable, Timeout,
    )
}  # fmt: skip
_BY_CODE: dict[int, type[ApiError]] = {error.code: error for error in reversed(_BY_REASON.values())}


def from_status(status: dict[str, Any]) -> ApiError:
    """The error that a metav1.Status body stands for; unknown reasons go by their code."""
    details = status.get("details") or {}
    kind = _BY_REASON.get(status.get("reason", "")) or _BY_CODE.get(status.get("code", 500), InternalError)
    return kind(
        status.get("message", "") or kind.reason,
        causes=[
            Cause(c.get("reason", ""), c.get("message", ""), c.get("field", "")) for c in details.get("causes") or ()
        ],
        group=details.get("group", ""),
        kind=details.get("kind", ""),
        name=details.get("name", ""),
        uid=details.get("uid", ""),
        retry_after_s=details.get("retryAfterSeconds"),
    )
