"""Passes: they see their own writes, failures back off, and one bad key does not stop the others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jobset.api.meta import Object
from jobset.api.resources import CONFIG_MAPS, EVENTS, SECRETS
from jobset.cluster.client import InProcessClient
from jobset.core.actions import CreateObject, DeleteObject, EventNote, PatchObject, Plan, Why
from jobset.reconcile.apply import Applier, PassFailed
from jobset.reconcile.events import EventRecorder
from jobset.reconcile.informer import Informer, Key
from jobset.reconcile.worker import Controller, Outcome
from jobset.sim.loop import wall_clock

WHY = Why("Test", "because the test wants it")


def config_map(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


def secret(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}}


def applier(client: InProcessClient) -> Applier:
    return Applier(client, CONFIG_MAPS, EventRecorder(client, "test", wall_clock()))


@asynccontextmanager
async def running(*parts: Controller | Informer[Object]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part.run()) for part in parts]
        for part in parts:
            if isinstance(part, Informer):
                await part.wait_synced()
        yield
        for task in tasks:
            task.cancel()


async def test_a_pass_sees_what_the_last_one_wrote(client: InProcessClient) -> None:
    """Each pass creates one more Secret by what its cache shows: a stale cache would make it create the same again."""
    secrets: Informer[Object] = Informer(client, SECRETS, dict)
    root = await client.create(CONFIG_MAPS, config_map("root"))
    seen: list[int] = []

    async def run_pass(key: Key) -> Outcome:
        count = len(secrets.cache)
        seen.append(count)
        if count == 5:
            return Outcome()
        plan = Plan(actions=(CreateObject(SECRETS, secret(f"s{count}"), WHY),))
        return Outcome(await applier(client).apply(root, plan), requeue_after_s=0)

    controller = Controller("test", run_pass, {SECRETS: secrets.cache})
    async with running(secrets, controller):
        controller.queue.add(("default", "root"))
        async with asyncio.timeout(60):
            while len(seen) < 6:
                await asyncio.sleep(0.01)
    assert seen == [0, 1, 2, 3, 4, 5]


async def test_a_failing_key_backs_off_and_leaves_others_alone() -> None:
    loop = asyncio.get_running_loop()
    times: dict[str, list[float]] = {"bad": [], "good": []}

    async def run_pass(key: Key) -> Outcome:
        times[key[1]].append(loop.time())
        if key[1] == "bad":
            raise RuntimeError("broken")
        return Outcome()

    controller = Controller("test", run_pass, {})
    async with running(controller):
        controller.queue.add(("default", "bad"))
        controller.queue.add(("default", "good"))
        await asyncio.sleep(1)
    gaps = [round(b - a, 3) for a, b in zip(times["bad"], times["bad"][1:], strict=False)]
    assert gaps[:4] == [0.005, 0.01, 0.02, 0.04]
    assert len(times["good"]) == 1


async def test_what_is_there_or_gone_already_is_no_failure(client: InProcessClient) -> None:
    root = await client.create(CONFIG_MAPS, config_map("root"))
    await client.create(SECRETS, secret("there"))
    plan = Plan(
        actions=(
            CreateObject(SECRETS, secret("there"), WHY),
            DeleteObject(SECRETS, "default", "absent", "no-such-uid", WHY),
            DeleteObject(SECRETS, "default", "there", "another-uid", WHY),
        )
    )
    applied = await applier(client).apply(root, plan)
    assert applied.stale
    assert (await client.get(SECRETS, "default", "there", dict))["metadata"]["name"] == "there"


async def test_a_refused_creation_is_told_in_an_event_and_the_status_is_written_all_the_same(
    client: InProcessClient,
) -> None:
    root = await client.create(CONFIG_MAPS, config_map("root"))
    bad = {**secret("x"), "metadata": {"name": "Not A Name", "namespace": "default"}}
    note = EventNote("Normal", "Told", "100% of %s")
    plan = Plan(actions=(CreateObject(SECRETS, bad, WHY, failure_event="CreationFailed"),), events=(note,))
    same = applier(client)
    for _ in range(3):
        try:
            await same.apply(root, plan)
        except PassFailed as error:
            assert not error.conflict
        else:
            raise AssertionError("the pass should have failed")
    events = (await client.list(EVENTS, dict, namespace="default")).items
    told = {event["reason"]: event for event in events}
    assert set(told) == {"CreationFailed", "Told"}
    assert told["Told"]["note"] == "100% of %s"
    assert told["CreationFailed"]["type"] == "Warning"
    assert told["CreationFailed"]["series"]["count"] == 3


async def test_a_patch_of_an_object_that_changed_conflicts(client: InProcessClient) -> None:
    root = await client.create(CONFIG_MAPS, config_map("root"))
    made = await client.create(SECRETS, secret("s"))
    await client.patch(SECRETS, "default", "s", {"metadata": {"labels": {"a": "b"}}})
    version = made["metadata"]["resourceVersion"]
    patch = PatchObject(SECRETS, "default", "s", {"metadata": {"labels": {"c": "d"}}}, WHY, resource_version=version)
    try:
        await applier(client).apply(root, Plan(actions=(patch,)))
    except PassFailed as error:
        assert error.conflict
    else:
        raise AssertionError("the pass should have failed")
