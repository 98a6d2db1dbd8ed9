"""Objects from bytes so that what many have in common is held once. Pure.

Objects are copied on write and never changed, so the pods of a Job share their containers while a process lives. Read
back one by one they would take several times the memory; here equal parts of one after the other are one again.
"""

from __future__ import annotations

from typing import Any

import msgspec

from jobset.api.meta import Object

SMALLEST_SHARED = 64
"""Bytes of JSON below which looking for an equal part costs more than it saves."""
PARTS_REMEMBERED = 4096

_parts_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_value_of = msgspec.json.Decoder().decode


class SharingDecoder:
    """Decodes the objects of one store in turn; shares the fields of objects, and those of their mappings."""

    def __init__(self) -> None:
        self._seen: dict[bytes, Any] = {}

    def decode(self, body: bytes) -> Object:
        """Raises msgspec.MsgspecError for what is no JSON object."""
        return {name: self._field(part) for name, part in _parts_of(body).items()}

    def _field(self, part: msgspec.Raw) -> Any:
        text = bytes(part)
        if text.startswith(b"{") and len(text) >= SMALLEST_SHARED:
            return {name: self._shared(bytes(inner)) for name, inner in _parts_of(text).items()}
        return self._shared(text)

    def _shared(self, text: bytes) -> Any:
        if len(text) < SMALLEST_SHARED:
            return _value_of(text)
        seen = self._seen
        found = seen.get(text)
        if found is None:
            if len(seen) >= PARTS_REMEMBERED:
                seen.clear()
            found = seen[text] = _value_of(text)
        return found
