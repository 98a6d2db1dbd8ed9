"""The small parts of the HTTP client by themselves: lines, lists, events, the rate of requests."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobset.api.errors import Gone, TooManyRequests
from jobset.api.meta import ObjectMeta, View
from jobset.api.resources import CONFIG_MAPS, PODS
from jobset.client import requests
from jobset.client.http.decoding import Lines, decode_event, decode_list
from jobset.client.http.rate import RateLimit
from jobset.client.port import WatchEvent


@given(st.lists(st.binary().map(lambda line: line.replace(b"\n", b"")), max_size=8), st.data())
def test_lines_are_the_same_whatever_pieces_they_come_in(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines) + b"unfinished"
    splitter, found, at = Lines(), [], 0
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream) - at))
        found += splitter.feed(stream[at : at + size])
        at += size
    assert found == [line for line in lines if line]


def test_a_line_of_many_pieces_takes_linear_time() -> None:
    splitter = Lines()
    for _ in range(50_000):
        assert splitter.feed(b"x" * 100) == []
    assert len(splitter.feed(b"\n")[0]) == 5_000_000


class Lean(View, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str]


def test_a_list_decodes_to_views_or_to_whole_objects() -> None:
    body = (
        b'{"metadata":{"resourceVersion":"7","continue":"next"},'
        b'"items":[{"metadata":{"name":"a"},"data":{"x":"1"},"more":1}]}'
    )
    lean = decode_list(body, CONFIG_MAPS, Lean)
    assert (lean.resource_version, lean.continue_token) == ("7", "next")
    assert lean.items == [Lean(metadata=ObjectMeta(name="a"), data={"x": "1"})]
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}, "more": 1}
    assert decode_list(body, CONFIG_MAPS, dict).items == [whole]
    assert decode_list(b'{"metadata":{},"items":null}', CONFIG_MAPS, dict).items == []


@pytest.mark.parametrize("as_", [dict, Lean])
def test_bookmarks_and_errors_need_not_look_like_the_objects(as_: type) -> None:
    bookmark = b'{"type":"BOOKMARK","object":{"kind":"ConfigMap","metadata":{"resourceVersion":"9"}}}'
    assert decode_event(bookmark, as_) == WatchEvent("BOOKMARK", None, "9")
    for reason in ("Expired", "Gone"):
        error = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"%s","message":"too old"}}'
        with pytest.raises(Gone, match="too old"):
            decode_event(error % reason.encode(), as_)
    slow = b'{"object":{"kind":"Status","code":429,"details":{"retryAfterSeconds":3}},"type":"ERROR"}'
    with pytest.raises(TooManyRequests) as raised:
        decode_event(slow, as_)
    assert raised.value.retry_after_s == 3


async def test_requests_come_in_bursts_and_then_at_the_steady_rate() -> None:
    limit, loop = RateLimit(10, 5), asyncio.get_running_loop()
    times: list[float] = []

    async def ask() -> None:
        await limit.wait()
        times.append(round(loop.time() - start, 6))

    start = loop.time()
    for _ in range(8):
        await ask()
    assert times == [0, 0, 0, 0, 0, 0.1, 0.2, 0.3]
    await asyncio.sleep(60)
    start, times = loop.time(), []
    async with asyncio.TaskGroup() as group:
        for _ in range(7):
            group.create_task(ask())
    assert times == [0, 0, 0, 0, 0, 0.1, 0.2]


def test_names_are_quoted_in_paths() -> None:
    assert requests.path_of(PODS, "a/b", "c d", "log") == "/api/v1/namespaces/a%2Fb/pods/c%20d/log"
