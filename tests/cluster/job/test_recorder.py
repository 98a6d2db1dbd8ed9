"""Events of the embedded controllers: repeats are counted, and no object may fill the store with them."""

import asyncio

from jobset.api.meta import Object
from jobset.api.resources import CORE_EVENTS
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.controllers.recorder import BURST, REFILL_S, CoreEventRecorder
from jobset.cluster.store.memory import MemoryStore
from jobset.core.actions import EventNote
from jobset.sim.loop import wall_clock

REGARDING: Object = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j", "namespace": "default", "uid": "uid-j"},
}


def recorder() -> tuple[InProcessClient, CoreEventRecorder]:
    now = wall_clock()
    client = InProcessClient(ApiService(MemoryStore(paranoid=True), now=now, seed=1))
    return client, CoreEventRecorder(client, "job-controller", now)


async def events(client: InProcessClient) -> list[Object]:
    return list((await client.list(CORE_EVENTS, dict, namespace="default")).items)


async def test_a_repeat_raises_the_count_and_a_lost_series_starts_anew() -> None:
    client, record = recorder()
    note = EventNote("Warning", "FailedCreate", "no quota")
    for _ in range(3):
        await record.record(REGARDING, note)
    (event,) = await events(client)
    assert (event["count"], event["source"]["component"]) == (3, "job-controller")
    await client.delete(CORE_EVENTS, "default", event["metadata"]["name"])
    await record.record(REGARDING, note)
    assert [event["count"] for event in await events(client)] == [1]


async def test_an_object_has_a_budget_for_each_reason_that_refills_slowly() -> None:
    client, record = recorder()
    for number in range(2 * BURST):
        await record.record(REGARDING, EventNote("Normal", "SuccessfulCreate", f"Created pod: {number}"))
    assert len(await events(client)) == BURST
    await record.record(REGARDING, EventNote("Normal", "Completed", "Job completed"))
    assert len(await events(client)) == BURST + 1, "another reason has a budget of its own"
    await asyncio.sleep(REFILL_S + 1)
    for number in range(2):
        await record.record(REGARDING, EventNote("Normal", "SuccessfulCreate", f"again {number}"))
    assert len(await events(client)) == BURST + 2


async def test_a_refused_event_is_logged_and_no_error() -> None:
    client, record = recorder()
    elsewhere = {**REGARDING, "metadata": {**REGARDING["metadata"], "namespace": "absent"}}
    await record.record(elsewhere, EventNote("Normal", "Completed", "Job completed"))
    assert await events(client) == []
