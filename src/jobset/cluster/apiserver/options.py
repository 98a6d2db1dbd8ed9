"""What a request may ask for besides its object: dry run, preconditions, propagation, selectors, paging."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from jobset.client.port import Propagation

FieldValidation: TypeAlias = Literal["Ignore", "Warn", "Strict"]


def no_warning(_: str) -> None:
    pass


class WriteOptions(Struct, frozen=True):
    """For create, update and patch. `warn` receives the texts that HTTP puts into Warning headers.

    `field_manager` is who will own the fields that the request sets (managed_fields.py). Whoever names none, as all of
    this program's own controllers, creates objects whose fields nobody keeps track of, at no cost. `force` is for
    applying: take over what others own.
    """

    dry_run: bool = False
    field_validation: FieldValidation = "Warn"
    warn: Callable[[str], None] = no_warning
    field_manager: str = ""
    force: bool = False


class DeleteOptions(Struct, frozen=True):
    """`uid` and `resource_version` are preconditions (Conflict when they do not hold)."""

    uid: str = ""
    resource_version: str = ""
    propagation: Propagation | None = None
    grace_period_s: int | None = None
    dry_run: bool = False
    warn: Callable[[str], None] = no_warning


class ListOptions(Struct, frozen=True):
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    version_match: str = ""
    """resourceVersionMatch: Exact, NotOlderThan or empty."""


class WatchOptions(Struct, frozen=True):
    """`resource_version` empty or "0": start with ADDED for everything that exists."""

    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    version_match: str = ""
    bookmarks: bool = False
    send_initial_events: bool | None = None


WRITE = WriteOptions()
DELETE = DeleteOptions()
LIST = ListOptions()
