"""SPDY frames and sessions: whatever pieces the bytes come in, however slow the reader."""

from __future__ import annotations

import asyncio
import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobset.cluster.apiserver.http.streams import spdy
from jobset.cluster.apiserver.http.streams.spdy_session import STREAM_LIMIT_BYTES, SpdySession, SpdyStream, StreamReset

HEADERS = st.dictionaries(st.from_regex(r"[a-z-]{1,20}", fullmatch=True), st.text("abc/=. é", max_size=30), max_size=5)


def frames(*pieces: bytes) -> list[spdy.Frame]:
    reader = spdy.FrameReader()
    return [frame for piece in pieces for frame in reader.feed(piece)]


@given(st.lists(HEADERS, min_size=1, max_size=4), st.binary(max_size=300), st.data())
def test_frames_arrive_whatever_pieces_they_come_in(
    headers: list[dict[str, str]], body: bytes, data: st.DataObject
) -> None:
    writer = spdy.FrameWriter()
    sent = b"".join(writer.syn_stream(2 * n + 1, each) for n, each in enumerate(headers))
    sent += spdy.data_frame(1, body, fin=True) + spdy.ping_frame(7) + spdy.reset_frame(1, spdy.CANCEL)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=8)))
    pieces = [sent[start:end] for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    got = frames(*pieces)
    opened = [frame for frame in got if isinstance(frame, spdy.SynStream)]
    assert [dict(frame.headers) for frame in opened] == headers
    parts = [frame for frame in got if isinstance(frame, spdy.Data)]
    assert b"".join(part.data for part in parts) == body
    assert [part.fin for part in parts] == [False] * (len(parts) - 1) + [True]
    assert got[-2:] == [spdy.Ping(7), spdy.Reset(1, spdy.CANCEL)]


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_waited_for(garbage: bytes) -> None:
    reader = spdy.FrameReader()
    with contextlib.suppress(spdy.ProtocolError):
        list(reader.feed(garbage))


def test_a_bomb_of_headers_is_refused() -> None:
    bomb = spdy.FrameWriter().syn_stream(1, {"a": "x" * 10_000_000})
    assert len(bomb) < 64 * 1024
    with pytest.raises(spdy.ProtocolError, match="too long"):
        frames(bomb)


def test_a_frame_that_announces_too_much_is_refused() -> None:
    with pytest.raises(spdy.ProtocolError):
        frames(struct.pack("!HHI", 0x8003, 1, 1 << 20))


class Client:
    """A Carrier in memory, and the bytes of a client on its other end."""

    def __init__(self) -> None:
        self.writer = spdy.FrameWriter()
        self.reader = spdy.FrameReader()
        self.incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self.got: list[spdy.Frame] = []

    async def receive(self) -> bytes:
        return await self.incoming.get()

    async def send(self, data: bytes) -> None:
        self.got += self.reader.feed(data)

    def open(self, stream_id: int, **headers: str) -> None:
        self.incoming.put_nowait(self.writer.syn_stream(stream_id, headers))

    def say(self, stream_id: int, data: bytes, fin: bool = False) -> None:
        self.incoming.put_nowait(spdy.data_frame(stream_id, data, fin))

    def leave(self) -> None:
        self.incoming.put_nowait(b"")


async def opened(client: Client, group: asyncio.TaskGroup, count: int) -> list[SpdyStream]:
    streams: list[SpdyStream] = []
    group.create_task(SpdySession(client, streams.append).run())
    while len(streams) < count:
        await asyncio.sleep(0.01)
    return streams


async def test_streams_are_replied_to_read_and_finished() -> None:
    client = Client()
    client.open(1, streamType="data", port="80")
    client.say(1, b"hello", fin=True)
    async with asyncio.TaskGroup() as group:
        (stream,) = await opened(client, group, 1)
        assert dict(stream.headers) == {"streamtype": "data", "port": "80"}
        assert [await stream.read(), await stream.read(), await stream.read()] == [b"hello", b"", b""]
        await stream.write(b"x" * 100_000)
        await stream.finish()
        client.leave()
    assert client.got[0] == spdy.SynReply(1, {})
    data = [frame for frame in client.got if isinstance(frame, spdy.Data)]
    assert sum(len(frame.data) for frame in data) == 100_000 and data[-1].fin


async def test_a_slow_reader_stops_the_connection_and_fills_no_memory() -> None:
    client = Client()
    client.open(1)
    chunks, size = 200, 64 * 1024
    for _ in range(chunks):
        client.say(1, bytes(size))
    client.say(1, b"", fin=True)
    async with asyncio.TaskGroup() as group:
        (stream,) = await opened(client, group, 1)
        await asyncio.sleep(1)
        taken = chunks - client.incoming.qsize() + 1
        assert taken * size <= STREAM_LIMIT_BYTES + 3 * size
        read = 0
        while data := await stream.read():
            read += len(data)
        assert read == chunks * size
        client.leave()


async def test_who_ignores_a_stream_lets_the_others_go_on() -> None:
    client = Client()
    client.open(1)
    for _ in range(100):
        client.say(1, bytes(64 * 1024))
    client.open(3)
    client.say(3, b"through", fin=True)
    async with asyncio.TaskGroup() as group:
        streams = await opened(client, group, 1)
        await asyncio.sleep(1)
        assert len(streams) == 1
        streams[0].ignore()
        while len(streams) < 2:
            await asyncio.sleep(0.01)
        assert await streams[1].read() == b"through"
        client.leave()


async def test_resets_and_leaving_wake_who_reads() -> None:
    client = Client()
    client.open(1)
    client.open(3)
    async with asyncio.TaskGroup() as group:
        first, second = await opened(client, group, 2)
        client.incoming.put_nowait(spdy.reset_frame(1, spdy.CANCEL))
        with pytest.raises(StreamReset):
            await first.read()
        with pytest.raises(StreamReset):
            await first.write(b"x")
        client.leave()
        with pytest.raises(StreamReset):
            await second.read()


async def test_pings_are_answered_and_odd_ones_out_refused() -> None:
    client = Client()
    client.incoming.put_nowait(spdy.ping_frame(5))
    client.open(1)
    client.open(1)
    async with asyncio.TaskGroup() as group:
        await opened(client, group, 1)
        await asyncio.sleep(6)
        client.leave()
    assert spdy.Ping(5) in client.got
    assert spdy.Reset(1, spdy.REFUSED_STREAM) in client.got
    assert spdy.Ping(2) in client.got  # ours: it finds out who is gone
