"""Log following: whole lines only, in the order of their times, from files that come late and grow."""

import asyncio
from pathlib import Path

import pytest

from jobset.cluster.kubelet.cri_log import LogLine
from jobset.local.follow import LogFollower, Source, tail


class Log:
    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)


class Reader:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lines: list[tuple[str, str]] = []
        self.follower = LogFollower(self._on_line)

    def add(self, pod: str) -> tuple[Source, Log]:
        source, path = Source("default", pod, "main", 0), self.directory / f"{pod}.log"
        self.follower.add(source, path)
        return source, Log(path)

    def read(self) -> list[tuple[str, str]]:
        self.lines.clear()
        self.follower.read_all()
        return list(self.lines)

    def _on_line(self, source: Source, line: LogLine) -> None:
        self.lines.append((source.pod, line.text))


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


def test_a_file_that_comes_late_is_read_from_its_start_and_once(reader: Reader) -> None:
    _, log = reader.add("a")
    assert reader.read() == []
    log.write("1 stdout F first\n")
    assert reader.read() == [("a", "first")]
    assert reader.read() == []
    log.write("2 stderr F \n3 stdout F third\n")
    assert reader.read() == [("a", ""), ("a", "third")]


def test_half_written_lines_wait_for_their_end(reader: Reader) -> None:
    _, log = reader.add("a")
    log.write("1 stdout F whole\n2 stdo")
    assert reader.read() == [("a", "whole")]
    log.write("ut F torn by")
    assert reader.read() == []
    log.write(" the reader\n")
    assert reader.read() == [("a", "torn by the reader")]


def test_parts_are_put_together_by_stream(reader: Reader) -> None:
    _, log = reader.add("a")
    log.write("1 stdout P one \n2 stderr P alpha \n3 stdout F two\n4 stderr F beta\n")
    assert reader.read() == [("a", "one two"), ("a", "alpha beta")]


def test_what_a_container_left_unfinished_is_told_when_it_has_ended(reader: Reader) -> None:
    source, log = reader.add("a")
    log.write("1 stdout P no newline")
    log.write("\n")
    assert reader.read() == []
    reader.follower.finish(source)
    assert reader.read() == [("a", "no newline")]


def test_lines_of_several_files_come_in_the_order_of_their_times(reader: Reader) -> None:
    _, a = reader.add("a")
    _, b = reader.add("b")
    a.write("2026-01-01T00:00:01.1Z stdout F one\n2026-01-01T00:00:03.0Z stdout F three\n")
    b.write("2026-01-01T00:00:02.0Z stdout F two\n")
    assert reader.read() == [("a", "one"), ("b", "two"), ("a", "three")]


def test_a_finished_file_is_read_to_its_end_and_let_go(reader: Reader) -> None:
    source, log = reader.add("a")
    log.write("1 stdout F one\n")
    reader.follower.finish(source)
    assert reader.read() == [("a", "one")]
    log.write("2 stdout F last\n")
    assert reader.read() == [("a", "last")]
    reader.read()
    log.write("3 stdout F nobody writes this\n")
    assert reader.read() == []


async def test_it_follows_until_cancelled(reader: Reader) -> None:
    _, log = reader.add("a")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(reader.follower.run())
        await asyncio.sleep(1)
        log.write("1 stdout F late\n")
        await asyncio.sleep(1)
        task.cancel()
    assert reader.lines == [("a", "late")]


def test_thousands_of_quiet_files_cost_no_reading(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(500):
        reader.add(f"pod-{number}")[1].write("1 stdout F up\n")
    assert len(reader.read()) == 500
    opened: list[object] = []
    monkeypatch.setattr("builtins.open", lambda *arguments: opened.append(arguments))
    assert reader.read() == []
    assert opened == []


def test_the_tail_is_made_of_whole_lines(tmp_path: Path) -> None:
    log = Log(tmp_path / "0.log")
    assert tail(log.path, 3) == ()
    for number in range(5000):
        log.write(f"{number} stdout F line {number}\n")
    log.write("5000 stdout P and \n5001 stdout F so on\n")
    assert [line.text for line in tail(log.path, 3)] == ["line 4998", "line 4999", "and so on"]
