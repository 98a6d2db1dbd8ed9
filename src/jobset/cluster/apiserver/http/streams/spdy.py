"""SPDY/3.1 frames: bytes to frames and back, and nothing else. Pure; spdy_session.py gives them a meaning.

Old clients speak it over TCP after `Upgrade: SPDY/3.1`, port-forwarding speaks it inside WebSocket messages. Header
blocks are one zlib stream a direction, primed with the dictionary that the SPDY drafts define. Flow-control windows are
not used: no Kubernetes client keeps them, the transport's own flow control does the work.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

VERSION = 3
_FIN = 0x01
_HEAD = struct.Struct("!II")
_CONTROL_HEAD = struct.Struct("!HHI")
_NUMBER = struct.Struct("!I")
_CONTROL = 0x80000000
_STREAM_ID = 0x7FFFFFFF
_LENGTH = 0xFFFFFF
_CONTROL_LIMIT_BYTES = 64 * 1024
_HEADERS_LIMIT_BYTES = 64 * 1024


class _Kind(IntEnum):
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    PING = 6
    GOAWAY = 7
    HEADERS = 8


PROTOCOL_ERROR, REFUSED_STREAM, CANCEL = 1, 3, 5
"""Reasons of a reset."""

_DICTIONARY_WORDS = """
options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow
authorization cache-control connection content-base content-encoding content-language content-length content-location
content-md5 content-range content-type date etag expect expires from host if-match if-modified-since if-none-match
if-range if-unmodified-since last-modified location max-forwards pragma proxy-authenticate proxy-authorization range
referer retry-after server te trailer transfer-encoding upgrade user-agent vary via warning www-authenticate method get
status 200_OK version HTTP/1.1 url public set-cookie keep-alive origin
"""
_DICTIONARY_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _text(word: str) -> bytes:
    return _NUMBER.pack(len(word)) + word.encode("latin-1")


DICTIONARY = b"".join(_text(word.replace("_", " ")) for word in _DICTIONARY_WORDS.split()) + _DICTIONARY_TEXT.encode()


class ProtocolError(Exception):
    """The other end does not speak SPDY/3.1; the connection is of no more use."""


@dataclass(frozen=True, slots=True)
class SynStream:
    """The other end opens a stream. Header names are in lower case."""

    stream_id: int
    headers: Mapping[str, str]
    fin: bool = False


@dataclass(frozen=True, slots=True)
class SynReply:
    """The other end accepts a stream that we opened."""

    stream_id: int
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Data:
    """A piece of a stream; a large frame arrives as several. `fin`: nothing more will come."""

    stream_id: int
    data: bytes
    fin: bool


@dataclass(frozen=True, slots=True)
class Reset:
    stream_id: int
    reason: int


@dataclass(frozen=True, slots=True)
class Ping:
    number: int


@dataclass(frozen=True, slots=True)
class GoAway:
    """The other end opens no more streams."""


Frame: TypeAlias = SynStream | SynReply | Data | Reset | Ping | GoAway


class FrameReader:
    """Frames from what arrives. Holds at most one control frame back: data goes on at once, in pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._data_left = 0
        self._data_stream = 0
        self._data_fin = False

    def feed(self, data: bytes) -> Iterator[Frame]:
        """To be used up before the next call. Raises ProtocolError."""
        self._buffer += data
        start = 0
        try:
            while self._may_go_on(start):
                frame, start = self._next(start)
                if frame is not None:
                    yield frame
        finally:
            del self._buffer[:start]

    def _may_go_on(self, start: int) -> bool:
        """Whether enough has arrived for another step."""
        there = len(self._buffer) - start
        if self._data_left:
            return there > 0
        if there < _HEAD.size:
            return False
        first, second = _HEAD.unpack_from(self._buffer, start)
        length = second & _LENGTH
        return not first & _CONTROL or length > _CONTROL_LIMIT_BYTES or there >= _HEAD.size + length

    def _next(self, start: int) -> tuple[Frame | None, int]:
        """(a frame or None, where the rest begins)"""
        if self._data_left:
            return self._data(start)
        first, second = _HEAD.unpack_from(self._buffer, start)
        length, flags = second & _LENGTH, second >> 24
        start += _HEAD.size
        if not first & _CONTROL:
            self._data_stream, self._data_left, self._data_fin = first, length, bool(flags & _FIN)
            return (Data(first, b"", self._data_fin), start) if length == 0 else (None, start)
        if length > _CONTROL_LIMIT_BYTES or (first >> 16) & 0x7FFF != VERSION:
            raise ProtocolError("not a control frame of SPDY/3.1")
        payload = bytes(self._buffer[start : start + length])
        return self._control(first & 0xFFFF, flags, payload), start + length

    def _data(self, start: int) -> tuple[Frame, int]:
        piece = bytes(self._buffer[start : start + self._data_left])
        self._data_left -= len(piece)
        last = self._data_fin and self._data_left == 0
        return Data(self._data_stream, piece, last), start + len(piece)

    def _control(self, kind: int, flags: int, payload: bytes) -> Frame | None:
        """None for frames that tell us nothing: settings, windows, more headers."""
        try:
            number = _NUMBER.unpack_from(payload)[0]
            match kind:
                case _Kind.SYN_STREAM:
                    return SynStream(number & _STREAM_ID, self._headers(payload[10:]), bool(flags & _FIN))
                case _Kind.SYN_REPLY:
                    return SynReply(number & _STREAM_ID, self._headers(payload[4:]))
                case _Kind.RST_STREAM:
                    return Reset(number & _STREAM_ID, _NUMBER.unpack_from(payload, 4)[0])
                case _Kind.PING:
                    return Ping(number)
                case _Kind.GOAWAY:
                    return GoAway()
                case _Kind.HEADERS:
                    self._headers(payload[4:])  # only to keep the compression in step
        except struct.error as error:
            raise ProtocolError(f"a control frame is too short: {error}") from error
        return None

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            raw = self._inflate.decompress(block, _HEADERS_LIMIT_BYTES)
        except zlib.error as error:
            raise ProtocolError(f"a header block cannot be read: {error}") from error
        if self._inflate.unconsumed_tail:
            raise ProtocolError("a header block is too long")
        (count,) = _NUMBER.unpack_from(raw)
        headers: dict[str, str] = {}
        position = _NUMBER.size
        for _ in range(count):
            name, position = _read_text(raw, position)
            headers[name.lower()], position = _read_text(raw, position)
        return headers


def _read_text(raw: bytes, position: int) -> tuple[str, int]:
    (length,) = _NUMBER.unpack_from(raw, position)
    start = position + _NUMBER.size
    return raw[start : start + length].decode("latin-1"), start + length


class FrameWriter:
    """Frames as bytes. One for each connection: the headers' compression goes on from frame to frame."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def syn_stream(self, stream_id: int, headers: Mapping[str, str], fin: bool = False) -> bytes:
        payload = _NUMBER.pack(stream_id) + bytes(6) + self._headers(headers)
        return _control(_Kind.SYN_STREAM, payload, _FIN if fin else 0)

    def syn_reply(self, stream_id: int, headers: Mapping[str, str]) -> bytes:
        return _control(_Kind.SYN_REPLY, _NUMBER.pack(stream_id) + self._headers(headers))

    def _headers(self, headers: Mapping[str, str]) -> bytes:
        raw = _NUMBER.pack(len(headers)) + b"".join(_text(name) + _text(value) for name, value in headers.items())
        return self._deflate.compress(raw) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def data_frame(stream_id: int, data: bytes, fin: bool = False) -> bytes:
    return _HEAD.pack(stream_id, (_FIN << 24 if fin else 0) | len(data)) + data


def reset_frame(stream_id: int, reason: int) -> bytes:
    return _control(_Kind.RST_STREAM, _HEAD.pack(stream_id, reason))


def ping_frame(number: int) -> bytes:
    return _control(_Kind.PING, _NUMBER.pack(number))


def go_away_frame(last_stream_id: int) -> bytes:
    return _control(_Kind.GOAWAY, _HEAD.pack(last_stream_id, 0))


def _control(kind: int, payload: bytes, flags: int = 0) -> bytes:
    return _CONTROL_HEAD.pack(0x8000 | VERSION, kind, flags << 24 | len(payload)) + payload
