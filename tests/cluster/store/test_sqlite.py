"""What the durable store promises beyond the others: restarts, kills, locks, and files that cannot serve."""

import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cluster.store.killed_writer import Judge

from jobset.api.errors import Gone, InternalError
from jobset.api.resources import CONFIG_MAPS, NAMESPACES
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.store.memory import MemoryStore
from jobset.cluster.store.sharing import SharingDecoder
from jobset.cluster.store.sqlite import Durability, SqliteStore, StoreUnusable
from jobset.sim.loop import wall_clock


def item(name: str, namespace: str = "n", **data: str) -> dict:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def test_objects_and_revisions_continue_after_a_restart(path: Path) -> None:
    store = SqliteStore(path)
    kept = store.put("pods", item("a", x="ü\x00"))
    store.put("nodes", {"metadata": {"name": "node"}})
    store.put("pods", item("b"))
    store.remove("pods", item("b"))
    store.close()
    again = SqliteStore(path)
    assert again.revision == 4
    assert again.list("pods") == [kept]
    assert again.get("nodes", "", "node") == {"metadata": {"name": "node", "resourceVersion": "2"}}
    assert again.put("pods", item("b"))["metadata"]["resourceVersion"] == "5"
    again.close()


async def test_a_watch_from_before_the_restart_is_gone_and_one_from_the_last_revision_is_not(path: Path) -> None:
    store = SqliteStore(path)
    store.put("pods", item("a"))
    store.put("pods", item("b"))
    store.close()
    again = SqliteStore(path)
    for resource in ("pods", "jobs.batch"):
        with pytest.raises(Gone):
            again.watch(resource, 1)
    with pytest.raises(Gone):
        again.list("pods", "", 1)
    watch = again.watch("pods", 2)
    again.put("pods", item("a", x="1"))
    again.remove("pods", item("b"))
    assert [(c.type, c.revision) for c in await watch.batch()] == [("MODIFIED", 3), ("DELETED", 4)]
    again.close()


def test_the_api_service_starts_on_what_it_left(path: Path) -> None:
    store = SqliteStore(path)
    service = ApiService(store, now=wall_clock(), seed=1)
    service.create(CONFIG_MAPS, "default", item("a", "default"))
    revision = store.revision
    store.close()
    store = SqliteStore(path)
    service = ApiService(store, now=wall_clock(), seed=2)
    assert store.revision == revision
    assert len(service.list(NAMESPACES).items) == 4
    assert service.get(CONFIG_MAPS, "default", "a")["metadata"]["resourceVersion"] == str(revision)
    store.close()


def test_only_the_owner_may_read_the_files(path: Path) -> None:
    path.touch(0o644)
    store = SqliteStore(path)
    store.put("secrets", item("a"))
    modes = {one.name: one.stat().st_mode & 0o777 for one in path.parent.iterdir()}
    assert modes == {"store.db": 0o600, "store.db-wal": 0o600}
    store.close()


def test_a_write_that_fails_did_not_happen(path: Path) -> None:
    store = SqliteStore(path)
    kept = store.put("pods", item("a"))
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(InternalError, match="full"):
        store.put("pods", item("a", x="x" * 100_000))
    assert (store.revision, store.get("pods", "n", "a")) == (1, kept)
    store.remove("pods", kept)
    assert store.put("pods", item("b"))["metadata"]["resourceVersion"] == "3"
    store.close()


def test_two_stores_never_share_a_file(path: Path) -> None:
    store = SqliteStore(path)
    with pytest.raises(StoreUnusable, match="in use by another server"):
        SqliteStore(path)
    program = (
        "import sys\nfrom pathlib import Path\nfrom jobset.cluster.store.sqlite import SqliteStore, StoreUnusable\n"
        "try: SqliteStore(Path(sys.argv[1]))\nexcept StoreUnusable as error: print(error)"
    )
    run = [sys.executable, "-c", program, str(path)]
    assert "in use by another server" in subprocess.run(run, capture_output=True, text=True, check=True).stdout
    store.put("pods", item("a"))
    store.close()
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == ""


def test_a_file_of_something_else_is_refused_and_left_alone(path: Path) -> None:
    foreign = sqlite3.connect(path)
    foreign.execute("CREATE TABLE bookmarks (url TEXT)")
    foreign.close()
    before = path.read_bytes()
    with pytest.raises(StoreUnusable, match="not a JobSet store"):
        SqliteStore(path)
    assert path.read_bytes() == before
    text = path.with_name("notes.txt")
    text.write_text("not a database at all\n" * 100)
    with pytest.raises(StoreUnusable, match="not a JobSet store"):
        SqliteStore(text)


def test_a_file_of_a_newer_version_is_refused(path: Path) -> None:
    SqliteStore(path).close()
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 7")
    newer.close()
    with pytest.raises(StoreUnusable, match=r"another version of jobset \(schema 7"):
        SqliteStore(path)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match=r"absent/store\.db cannot be opened: No such file"):
        SqliteStore(tmp_path / "absent" / "store.db")


@pytest.mark.parametrize("at", [0.3, 0.6, 0.9])
def test_a_damaged_file_is_named(path: Path, at: float) -> None:
    store = SqliteStore(path)
    for number in range(200):
        store.put("pods", item(f"p{number}", x="y" * 3000))
    store.close()
    content = bytearray(path.read_bytes())
    start = int(len(content) * at) // 4096 * 4096
    content[start : start + 4096] = random.Random(1).randbytes(4096)
    path.write_bytes(content)
    with pytest.raises(StoreUnusable, match="damaged"):
        SqliteStore(path)


def test_what_deleted_objects_took_is_given_back(path: Path) -> None:
    store = SqliteStore(path)
    for number in range(2000):
        store.put("pods", item(f"p{number}", x="y" * 3000))
    store.compact()
    full = path.stat().st_size
    for number in range(2000):
        store.remove("pods", item(f"p{number}"))
    store.close()
    assert full > 6_000_000
    assert path.stat().st_size < 2_000_000


def test_what_pods_have_in_common_is_held_once_after_a_restart(path: Path) -> None:
    store = SqliteStore(path)
    container = {"name": "main", "image": "python:3.11", "env": [{"name": "A", "value": "b" * 50}]}
    for number in range(3):
        spec = {"hostname": f"h{number}", "containers": [container]}
        store.put("pods", {"metadata": {"name": f"p{number}", "namespace": "n"}, "spec": spec})
    store.close()
    store = SqliteStore(path)
    pods = store.list("pods")
    assert [pod["spec"]["hostname"] for pod in pods] == ["h0", "h1", "h2"]
    assert pods[0]["spec"]["containers"] == [container]
    assert len({id(pod["spec"]["containers"]) for pod in pods}) == 1
    store.close()


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=100),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)


@given(st.lists(st.dictionaries(st.text(max_size=8), json_values), max_size=4))
@settings(max_examples=50, deadline=None)
def test_decoding_with_sharing_gives_what_was_encoded(objects: list[dict]) -> None:
    decoder = SharingDecoder()
    for obj in objects + objects:
        assert decoder.decode(msgspec.json.encode(obj)) == obj


keys = st.tuples(st.sampled_from(["pods", "jobs.batch"]), st.sampled_from(["n", "m", ""]), st.sampled_from("abc"))
operations = st.lists(st.one_of(st.none(), st.tuples(keys, st.none() | st.text(max_size=5))), max_size=30)


@given(operations)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_any_operations_and_restarts_it_equals_the_store_in_memory(tmp_path: Path, steps: list) -> None:
    """A step is a restart (None), a write of a key, or (no text) its removal."""
    path = tmp_path / "store.db"
    path.unlink(missing_ok=True)
    memory, store = MemoryStore(), SqliteStore(path)
    for step in steps:
        if step is None:
            store.close()
            store = SqliteStore(path)
            continue
        (resource, namespace, name), text = step
        obj = item(name, namespace, text=text or "")
        if not namespace:
            del obj["metadata"]["namespace"]
        if text is not None:
            assert memory.put(resource, obj) == store.put(resource, obj)
        elif memory.get(resource, namespace, name) is not None:
            assert memory.remove(resource, obj) == store.remove(resource, obj)
    for _ in range(2):
        assert store.revision == memory.revision
        for resource in ("pods", "jobs.batch"):
            assert store.list(resource) == memory.list(resource)
        store.close()
        store = SqliteStore(path)
    store.close()


@pytest.mark.parametrize(("durability", "kills", "most"), [("NORMAL", 7, 1500), ("FULL", 3, 300)])
def test_no_acknowledged_write_is_lost_when_the_writer_is_killed(
    path: Path, durability: Durability, kills: int, most: int
) -> None:
    judge = Judge(path, durability)
    chance = random.Random(5)
    for _ in range(kills):
        judge.kill_once(after=chance.randrange(1, most))
    assert judge.lost == []
    assert judge.acknowledged > most / 2
