"""Which text of a log file a client sees."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobset.cluster.kubelet.log_text import LogText, tail_offset

START = datetime(2026, 1, 1, tzinfo=UTC)


def line(second: int, text: str, stream: str = "stdout", tag: str = "F") -> bytes:
    moment = (START + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.000000000Z {stream} {tag} {text}\n".encode()


def shown(raw: bytes, *, timestamps: bool = False, since: datetime | None = None, limit: int | None = None) -> str:
    text = LogText(timestamps=timestamps, since=since, limit_bytes=limit)
    return b"".join(text.feed(raw[start : start + 7]) for start in range(0, len(raw), 7)).decode()


def test_lines_lose_what_the_runtime_put_before_them() -> None:
    raw = line(0, "out") + line(1, "  err ", "stderr") + line(2, "") + b"torn\n" + b"2026-01-01T00:00:03.000000000Z std"
    assert shown(raw) == "out\n  err \n\n"
    assert shown(raw, timestamps=True).splitlines()[1] == "2026-01-01T00:00:01.000000000Z   err "


def test_cut_lines_are_whole_again() -> None:
    raw = line(0, "one ", tag="P") + line(1, "two ", tag="P") + line(2, "three") + line(3, "next")
    assert shown(raw) == "one two three\nnext\n"
    assert shown(raw, timestamps=True).count("Z ") == 2


@pytest.mark.parametrize(
    ("after_s", "expected"), [(-10, "a\nb\nc\n"), (1, "b\nc\n"), (1.5, "c\n"), (2, "c\n"), (9, "")]
)
def test_since(after_s: float, expected: str) -> None:
    raw = line(0, "a") + line(1, "b") + line(2, "c")
    assert shown(raw, since=START + timedelta(seconds=after_s)) == expected


def test_limit_is_exact() -> None:
    raw = line(0, "abc") + line(1, "def")
    assert [shown(raw, limit=limit) for limit in (1, 4, 6, 100)] == ["a", "abc\n", "abc\nde", "abc\ndef\n"]


@given(
    st.lists(st.tuples(st.sampled_from(["F", "F", "P"]), st.integers(0, 60)), max_size=60),
    st.integers(0, 70),
    st.integers(1, 400),
)
def test_the_last_lines(given_lines: list[tuple[str, int]], wanted: int, block: int) -> None:
    """As if one had read everything; whatever blocks the file is read in."""
    raw = b"".join(line(0, "x" * length, tag=tag) for tag, length in given_lines)
    whole = shown(raw)
    complete = whole.count("\n")
    file = io.BytesIO(raw)
    file.seek(tail_offset(file, wanted, block))
    tail = shown(file.read())
    lines = whole.split("\n")
    kept = max(0, complete - wanted)
    assert tail == "\n".join(lines[kept:])
