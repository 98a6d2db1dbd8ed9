"""What every store promises: one revision over everything, watches that replay, transitions of selectors, bounds."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from jobset.api.errors import Gone
from jobset.cluster.store.memory import MemoryStore
from jobset.cluster.store.sqlite import SqliteStore
from jobset.cluster.store.tables import ChangedInPlace

NewStore = Callable[..., MemoryStore | SqliteStore]


@pytest.fixture(params=["memory", "sqlite"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewStore]:
    """Makes the one store of a test; takes what their constructors share."""
    if request.param == "memory":
        yield MemoryStore
        return
    made: list[SqliteStore] = []

    def make(**options: object) -> SqliteStore:
        made.append(partial(SqliteStore, tmp_path / "store.db")(**options))
        return made[0]

    yield make
    for store in made:
        store.close()


def item(name: str, namespace: str = "n", **labels: str) -> dict:
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}}


def test_each_write_of_any_resource_raises_the_revision_and_is_written_into_the_object(new_store: NewStore) -> None:
    store = new_store()
    versions = [store.put(r, item("a"))["metadata"]["resourceVersion"] for r in ("pods", "jobs.batch", "pods")]
    assert versions == ["1", "2", "3"]
    assert store.remove("pods", item("a"))["metadata"]["resourceVersion"] == "4"
    assert store.get("pods", "n", "a") is None


def test_a_list_is_ordered_and_can_be_had_as_it_was(new_store: NewStore) -> None:
    store = new_store()
    for name, namespace in (("b", "y"), ("a", "y"), ("c", "x")):
        store.put("pods", item(name, namespace))
    store.put("pods", item("a", "y", new="yes"))
    store.remove("pods", item("c", "x"))
    store.put("pods", item("d", "x"))

    def names(*args: object) -> list[str]:
        return [obj["metadata"]["name"] for obj in store.list("pods", *args)]

    assert names() == ["d", "a", "b"]
    assert names("y") == ["a", "b"]
    assert names("", 3) == ["c", "a", "b"]
    assert names("x", 3) == ["c"]
    assert store.list("pods", "y", 3)[0]["metadata"]["labels"] == {}


async def test_a_watch_replays_from_its_version_and_then_follows_its_namespace(new_store: NewStore) -> None:
    store = new_store()
    store.put("pods", item("a"))
    store.put("pods", item("b", "other"))
    store.put("pods", item("c"))
    watch = store.watch("pods", 1, namespace="n")
    store.put("pods", item("d", "other"))
    store.remove("pods", item("c"))
    assert [(c.type, c.object["metadata"]["name"], c.revision) for c in await watch.batch()] == [
        ("ADDED", "c", 3),
        ("DELETED", "c", 5),
    ]


async def test_an_object_that_starts_or_stops_matching_is_added_or_deleted(new_store: NewStore) -> None:
    store = new_store()
    watch = store.watch("pods", 0, matches=lambda obj: obj["metadata"]["labels"].get("on") == "1")
    store.put("pods", item("a"))
    store.put("pods", item("a", on="1"))
    store.put("pods", item("a", on="1", more="x"))
    store.put("pods", item("a", on="0"))
    store.remove("pods", item("a", on="0"))
    changes = await watch.batch()
    assert [(c.type, c.object["metadata"]["labels"]) for c in changes] == [
        ("ADDED", {"on": "1"}),
        ("MODIFIED", {"on": "1", "more": "x"}),
        ("DELETED", {"on": "1", "more": "x"}),
    ]
    assert changes[-1].object["metadata"]["resourceVersion"] == "4"


async def test_a_reader_that_is_too_slow_is_told_to_list_again(new_store: NewStore) -> None:
    store = new_store(buffer=3)
    watch = store.watch("pods", 0)
    for number in range(4):
        store.put("pods", item(f"p{number}"))
    with pytest.raises(Gone):
        await watch.batch()


def test_a_version_that_fell_out_of_the_history_is_gone(new_store: NewStore) -> None:
    store = new_store(history=2)
    for number in range(4):
        store.put("pods", item(f"p{number}"))
    store.watch("pods", 2).close()
    with pytest.raises(Gone):
        store.watch("pods", 1)
    with pytest.raises(Gone):
        store.list("pods", "", 1)


async def test_a_closed_watch_is_fed_no_more(new_store: NewStore) -> None:
    store = new_store()
    watch = store.watch("pods", 0, namespace="n")
    watch.close()
    store.put("pods", item("a"))
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(watch.batch(), 1)


def test_a_paranoid_store_notices_who_changes_what_is_shared(new_store: NewStore) -> None:
    store = new_store(paranoid=True)
    stored = store.put("pods", item("a"))
    store.verify()
    stored["metadata"]["labels"]["sneaky"] = "yes"
    with pytest.raises(ChangedInPlace, match="pods n/a"):
        store.verify()
    with pytest.raises(ChangedInPlace):
        store.put("pods", item("a"))
