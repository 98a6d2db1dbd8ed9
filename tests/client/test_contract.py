"""What every client promises, whatever lies behind: in process, over HTTPS, and on a real cluster.

The last one runs when JOBSET_TEST_KUBECONFIG names a kubeconfig; it works in namespaces of its own and removes them.
"""

import os
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.client.servers import TOKEN, api_server, now, server_tls, serving

from jobset.api.errors import AlreadyExists, Conflict, Invalid, NotFound
from jobset.api.meta import Object, ObjectMeta, View
from jobset.api.resources import CONFIG_MAPS, NAMESPACES, PODS
from jobset.client.http.adapter import HttpClient
from jobset.client.kubeconfig import Login, Pem, Target, load_target
from jobset.client.port import Client, WatchEvent
from jobset.cluster.apiserver.http.certificates import new_authority, new_server_certificate
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.store.memory import MemoryStore
from jobset.sim.loop import wall_clock

REAL = os.environ.get("JOBSET_TEST_KUBECONFIG", "")


@dataclass(frozen=True)
class World:
    kind: str
    directory: Path

    @asynccontextmanager
    async def client(self) -> AsyncIterator[tuple[Client, str]]:
        """A client, and the name of a namespace that is empty."""
        async with self._client() as client:
            namespace = f"contract-{uuid.uuid4().hex[:8]}"
            await client.create(NAMESPACES, {"metadata": {"name": namespace}})
            try:
                yield client, namespace
            finally:
                await client.delete(NAMESPACES, "", namespace)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Client]:
        if self.kind == "in process":
            yield InProcessClient(ApiService(MemoryStore(paranoid=True), now=wall_clock(), seed=1))
        elif self.kind == "cluster":
            async with HttpClient(load_target(os.environ, kubeconfig=REAL), now=now) as client:
                yield client
        else:
            authority = new_authority(now())
            tls = server_tls(self.directory, new_server_certificate(authority, ["127.0.0.1"], now()))
            trusted, login = Pem(authority.certificate.encode()), Login(token=TOKEN)
            async with serving(api_server(ApiService(MemoryStore(paranoid=True), now=now)), tls) as address:
                target = Target(address, "context test", authority=trusted, login=login)
                streams = self.kind == "HTTPS, streamed lists"
                async with HttpClient(target, now=now, per_second=0, stream_lists=streams) as client:
                    yield client


@pytest.fixture(
    params=[
        "in process",
        pytest.param("HTTPS", marks=pytest.mark.real_loop),
        pytest.param("HTTPS, streamed lists", marks=pytest.mark.real_loop),
        pytest.param("cluster", marks=[pytest.mark.real_loop, pytest.mark.skipif(not REAL, reason="no real cluster")]),
    ]
)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(request.param, tmp_path)


class ConfigMapView(View, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] = {}


def config_map(namespace: str, name: str, labels: dict[str, str] | None = None, **data: str) -> Object:
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels or {}}, "data": data}


def pod(namespace: str, name: str) -> Object:
    spec = {"containers": [{"name": "main", "image": "none"}], "nodeSelector": {"contract": "nowhere"}}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


async def test_what_is_created_can_be_read_in_both_shapes(world: World) -> None:
    async with world.client() as (client, namespace):
        created = await client.create(CONFIG_MAPS, config_map(namespace, "a", {"x": "y"}, key="ü"))
        assert created["metadata"]["uid"]
        assert (created["kind"], created["apiVersion"], created["data"]) == ("ConfigMap", "v1", {"key": "ü"})
        assert await client.get(CONFIG_MAPS, namespace, "a", dict) == created
        view = await client.get(CONFIG_MAPS, namespace, "a", ConfigMapView)
        assert (view.metadata.labels, view.data) == ({"x": "y"}, {"key": "ü"})
        assert view.metadata.resource_version == created["metadata"]["resourceVersion"]


async def test_errors_have_their_kinds_and_details(world: World) -> None:
    async with world.client() as (client, namespace):
        await client.create(CONFIG_MAPS, config_map(namespace, "a"))
        with pytest.raises(AlreadyExists):
            await client.create(CONFIG_MAPS, config_map(namespace, "a"))
        with pytest.raises(NotFound) as absent:
            await client.get(CONFIG_MAPS, namespace, "b", dict)
        assert (absent.value.kind, absent.value.name) == ("configmaps", "b")
        with pytest.raises(Invalid) as invalid:
            await client.create(CONFIG_MAPS, config_map(namespace, "c", **{"not a key": ""}))
        assert [cause.field for cause in invalid.value.causes] == ["data[not a key]"]
        with pytest.raises(NotFound):
            await client.create(CONFIG_MAPS, config_map("absent-" + namespace, "a"))


async def test_a_stale_update_conflicts(world: World) -> None:
    async with world.client() as (client, namespace):
        first = await client.create(CONFIG_MAPS, config_map(namespace, "a", n="1"))
        second = await client.update(CONFIG_MAPS, {**first, "data": {"n": "2"}})
        assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
        with pytest.raises(Conflict):
            await client.update(CONFIG_MAPS, {**first, "data": {"n": "3"}})
        blind = await client.update(CONFIG_MAPS, config_map(namespace, "a", n="4"))
        assert blind["data"] == {"n": "4"}


async def test_patches_of_every_type(world: World) -> None:
    async with world.client() as (client, namespace):
        await client.create(CONFIG_MAPS, config_map(namespace, "a", x="1", y="1"))
        merged = await client.patch(CONFIG_MAPS, namespace, "a", {"data": {"x": None, "z": "1"}})
        assert merged["data"] == {"y": "1", "z": "1"}
        operations = [{"op": "replace", "path": "/data/y", "value": "2"}]
        patched = await client.patch(CONFIG_MAPS, namespace, "a", operations, patch_type="json")
        assert patched["data"] == {"y": "2", "z": "1"}
        await client.create(PODS, pod(namespace, "p"))
        labels = {"metadata": {"labels": {"a": "b"}}}
        strategic = await client.patch(PODS, namespace, "p", labels, patch_type="strategic")
        assert strategic["metadata"]["labels"] == {"a": "b"}
        stale = {"metadata": {"resourceVersion": "1"}, "data": {"x": "2"}}
        with pytest.raises(Conflict):
            await client.patch(CONFIG_MAPS, namespace, "a", stale)


async def test_applying_creates_and_keeps_to_what_is_ones_own(world: World) -> None:
    async with world.client() as (client, namespace):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}

        async def apply(manager: str, force: bool = False, **data: str) -> Object:
            changed = {**body, "data": data}
            return await client.patch(
                CONFIG_MAPS, namespace, "a", changed, patch_type="apply", field_manager=manager, force=force
            )

        assert (await apply("one", x="1", y="1"))["data"] == {"x": "1", "y": "1"}
        assert (await apply("two", z="2"))["data"] == {"x": "1", "y": "1", "z": "2"}
        with pytest.raises(Conflict) as refused:
            await apply("two", x="2")
        assert [cause.field for cause in refused.value.causes] == [".data.x"]
        assert (await apply("two", force=True, x="2"))["data"] == {"x": "2", "y": "1"}
        assert (await apply("one", y="1"))["data"] == {"x": "2", "y": "1"}


async def test_a_status_is_written_apart(world: World) -> None:
    async with world.client() as (client, namespace):
        created = await client.create(PODS, pod(namespace, "p"))
        patch = {"status": {"message": "hello"}, "metadata": {"labels": {"not": "this"}}}
        patched = await client.patch(PODS, namespace, "p", patch, subresource="status")
        assert patched["status"]["message"] == "hello"
        assert patched["spec"] == created["spec"]
        replaced = {**patched, "status": {**patched["status"], "message": "again"}}
        assert (await client.update(PODS, replaced, subresource="status"))["status"]["message"] == "again"


async def test_dry_runs_change_nothing(world: World) -> None:
    async with world.client() as (client, namespace):
        assert (await client.create(CONFIG_MAPS, config_map(namespace, "a"), dry_run=True))["metadata"]["name"] == "a"
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAPS, namespace, "a", dict)
        created = await client.create(CONFIG_MAPS, config_map(namespace, "a"))
        changed = await client.patch(CONFIG_MAPS, namespace, "a", {"data": {"x": "1"}}, dry_run=True)
        assert changed["data"] == {"x": "1"}
        await client.update(CONFIG_MAPS, {**created, "data": {"x": "2"}}, dry_run=True)
        await client.delete(CONFIG_MAPS, namespace, "a", dry_run=True)
        assert await client.get(CONFIG_MAPS, namespace, "a", dict) == created


async def test_deletion_heeds_uids_and_finalizers(world: World) -> None:
    async with world.client() as (client, namespace):
        body = config_map(namespace, "a")
        body["metadata"]["finalizers"] = ["example.com/hold"]
        created = await client.create(CONFIG_MAPS, body)
        with pytest.raises(Conflict):
            await client.delete(CONFIG_MAPS, namespace, "a", uid="another")
        await client.delete(CONFIG_MAPS, namespace, "a", uid=created["metadata"]["uid"], propagation="Background")
        held = await client.get(CONFIG_MAPS, namespace, "a", dict)
        assert held["metadata"]["deletionTimestamp"]
        await client.patch(CONFIG_MAPS, namespace, "a", {"metadata": {"finalizers": None}})
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAPS, namespace, "a", dict)
        with pytest.raises(NotFound):
            await client.delete(CONFIG_MAPS, namespace, "a", grace_period_s=0)


async def test_a_subresource_can_be_created(world: World) -> None:
    async with world.client() as (client, namespace):
        await client.create(PODS, pod(namespace, "p"))
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": namespace}}
        eviction["deleteOptions"] = {"gracePeriodSeconds": 0}
        await client.create_subresource(PODS, namespace, "p", "eviction", eviction)
        with pytest.raises(NotFound):
            await client.get(PODS, namespace, "p", dict)


async def test_lists_choose_by_selectors_and_say_what_they_hold(world: World) -> None:
    async with world.client() as (client, namespace):
        for name, colour in (("a", "red"), ("b", "blue"), ("c", "red")):
            await client.create(CONFIG_MAPS, config_map(namespace, name, {"colour": colour}, key=name))
        found = await client.list(CONFIG_MAPS, dict, namespace=namespace, label_selector="colour=red")
        assert [(one["kind"], one["metadata"]["name"]) for one in found.items] == [
            ("ConfigMap", "a"),
            ("ConfigMap", "c"),
        ]
        views = await client.list(
            CONFIG_MAPS, ConfigMapView, namespace=namespace, field_selector="metadata.name!=a", label_selector="colour"
        )
        assert [one.data for one in views.items] == [{"key": "b"}, {"key": "c"}]
        assert int(views.resource_version) >= int(views.items[-1].metadata.resource_version)
        everywhere = await client.list(CONFIG_MAPS, ConfigMapView, label_selector="colour")
        assert len([one for one in everywhere.items if one.metadata.namespace == namespace]) == 3


async def test_pages_show_one_state(world: World) -> None:
    async with world.client() as (client, namespace):
        for name in "abcde":
            await client.create(CONFIG_MAPS, config_map(namespace, name, {"mine": "yes"}))
        names: list[str] = []
        token = ""
        while True:
            page = await client.list(
                CONFIG_MAPS, dict, namespace=namespace, label_selector="mine", limit=2, continue_token=token
            )
            if not token:
                await client.create(CONFIG_MAPS, config_map(namespace, "cc", {"mine": "yes"}))
            names += [one["metadata"]["name"] for one in page.items]
            token = page.continue_token
            if not token:
                break
        assert names == ["a", "b", "c", "d", "e"]


def told(events: Sequence[WatchEvent[Object]] | Sequence[WatchEvent[ConfigMapView]]) -> list[tuple[str, str, dict]]:
    shown = []
    for event in events:
        obj = event.object
        assert obj is not None
        data = obj.get("data", {}) if isinstance(obj, dict) else obj.data
        name = obj["metadata"]["name"] if isinstance(obj, dict) else obj.metadata.name
        shown.append((event.type, name, data))
    return shown


@pytest.mark.parametrize("as_", [dict, ConfigMapView])
async def test_a_watch_tells_every_change_after_its_version_in_order(world: World, as_: type) -> None:
    async with world.client() as (client, namespace):
        await client.create(CONFIG_MAPS, config_map(namespace, "before", {"mine": "yes"}))
        listed = await client.list(CONFIG_MAPS, as_, namespace=namespace)
        await client.create(CONFIG_MAPS, config_map(namespace, "a", {"mine": "yes"}, n="1"))
        await client.create(CONFIG_MAPS, config_map(namespace, "other", n="1"))
        version = listed.resource_version
        seen: list[WatchEvent] = []
        watch = client.watch(CONFIG_MAPS, as_, resource_version=version, namespace=namespace, label_selector="mine=yes")
        async with watch as batches:
            await client.patch(CONFIG_MAPS, namespace, "a", {"data": {"n": "2"}})
            await client.patch(CONFIG_MAPS, namespace, "a", {"metadata": {"labels": None}})
            await client.patch(CONFIG_MAPS, namespace, "other", {"metadata": {"labels": {"mine": "yes"}}})
            await client.delete(CONFIG_MAPS, namespace, "before")
            async for batch in batches:
                seen += [event for event in batch if event.type != "BOOKMARK"]
                if len(seen) == 5:
                    break
        assert told(seen) == [
            ("ADDED", "a", {"n": "1"}),
            ("MODIFIED", "a", {"n": "2"}),
            ("DELETED", "a", {"n": "2"}),
            ("ADDED", "other", {"n": "1"}),
            ("DELETED", "before", {}),
        ]
        versions = [int(event.resource_version) for event in seen]
        assert versions == sorted(set(versions))
        rest = client.watch(
            CONFIG_MAPS, as_, resource_version=str(versions[-2]), namespace=namespace, label_selector="mine=yes"
        )
        async with rest as batches:
            assert told(await anext(batches)) == [("DELETED", "before", {})]
