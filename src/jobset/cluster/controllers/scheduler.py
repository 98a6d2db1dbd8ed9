"""The scheduler: takes waiting pods in order, decides, binds, and says why a pod has to wait.

A pass applies what the informers brought (scheduler_feed.py), then decides pod after pod (model/scheduling/cycle.py)
and carries the decisions out in batches. It is one worker with one key; a pod that waits in vain is tried again when
something changed that may help it, and never by polling.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

from jobset.api.errors import ApiError, Conflict, NotFound
from jobset.api.meta import Object, condition_of, format_time
from jobset.api.resources import PODS
from jobset.client.port import Client
from jobset.cluster.controllers.scheduler_feed import SchedulerFeed
from jobset.cluster.model.scheduling.cycle import Decision, Placed, Waiting, decide
from jobset.cluster.model.scheduling.pod import DEFAULT_SCHEDULER, NodeDemands, PodInfo
from jobset.cluster.model.scheduling.preemption import Preemption
from jobset.core.actions import EventNote
from jobset.reconcile.events import EventRecorder
from jobset.reconcile.informer import Key, SharedInformers
from jobset.reconcile.worker import Controller, Outcome

BATCH = 64
SEARCHES = 8
"""A pod for which no node will do costs a look at all nodes: after so many others get their turn."""
MAX_PARALLEL = 16
RETRY_DELAY_S_PER_POD = 0.001
RETRY_DELAY_MAX_S = 2.0
UNSCHEDULABLE = "Unschedulable"
CYCLE: Key = ("", "cycle")

log = logging.getLogger(__name__)


class Decided(Struct, frozen=True):
    """`repeated`: the answer was found for a pod just like this one."""

    pod: PodInfo
    decision: Decision
    repeated: bool = False


class Scheduler:
    """For pods whose schedulerName is default-scheduler."""

    def __init__(self, client: Client, informers: SharedInformers, now: Callable[[], datetime]) -> None:
        self._client = client
        self._informers = informers
        self._now = now
        self._events = EventRecorder(client, DEFAULT_SCHEDULER, now)
        self._controller = Controller("scheduler", self._pass, {})
        self._feed = SchedulerFeed(informers, self._wake)
        self._release_at: float | None = None
        self._round_s = 0.0
        """How long it took to try again those that waited."""
        self._refused_s = 0.0
        """How long to leave the API alone after it refused a binding for reasons of its own."""

    async def run(self) -> None:
        await self._informers.wait_synced()
        self._wake()
        await self._controller.run()

    def _wake(self) -> None:
        self._controller.queue.add(CYCLE)

    async def _pass(self, _: Key) -> Outcome:
        started = asyncio.get_running_loop().time()
        released = self._release_if_due(started)
        batch = self._decide_batch()
        while batch:
            await self._carry_out(batch)
            batch = self._decide_batch()
        ended = asyncio.get_running_loop().time()
        if released:
            self._round_s = ended - started
        return Outcome(requeue_after_s=self._delay_until_release(ended))

    def _release_if_due(self, now_s: float) -> bool:
        self._feed.apply_changes()
        ready, stirred = len(self._feed.queue), self._feed.queue.stirred
        due = self._release_at is not None and now_s >= self._release_at
        if not due and not (ready and stirred <= BATCH):  # whoever waits must not be overtaken by newcomers
            return False
        self._release_at = None
        self._feed.queue.release()
        return True

    def _delay_until_release(self, now_s: float) -> float | None:
        """Pods with new hope wait a moment for more news, the longer the more it costs to try them all."""
        stirred = self._feed.queue.stirred
        if not stirred:
            self._release_at = None
            return None
        if self._release_at is None:
            delay_s = max(stirred * RETRY_DELAY_S_PER_POD, 4 * self._round_s, self._refused_s)
            self._release_at = now_s + min(delay_s, RETRY_DELAY_MAX_S)
        return max(self._release_at - now_s, 0.0)

    # ---------------------------------------------------------------- deciding

    def _decide_batch(self) -> list[Decided]:
        """Decide for the next pods. What was decided counts at once for those that follow."""
        feed = self._feed
        feed.apply_changes()
        batch: list[Decided] = []
        hopeless: dict[tuple[NodeDemands, int, bool], Waiting] = {}
        searches = 0
        while len(batch) < BATCH and searches < SEARCHES and (pod := feed.queue.pop()) is not None:
            alike = (pod.demands, pod.priority, pod.may_preempt)
            known = hopeless.get(alike) if _is_plain(pod) else None
            decision = known or decide(feed.state, pod)
            batch.append(Decided(pod, decision, repeated=known is not None))
            if isinstance(decision, Placed):
                feed.assume(pod, decision.node)
                continue
            feed.queue.park(pod)
            searches += known is None
            if decision.preemption is not None:
                self._make_room(pod, decision.preemption)
            elif _is_plain(pod):
                hopeless[alike] = decision
        return batch

    def _make_room(self, pod: PodInfo, preemption: Preemption) -> None:
        for victim in preemption.victims:
            self._feed.state.mark_terminating(victim.uid)
        self._feed.state.nominate(pod, preemption.node)

    # ---------------------------------------------------------------- carrying out

    async def _carry_out(self, batch: list[Decided]) -> None:
        pending = iter(batch)

        async def lane() -> None:
            for decided in pending:
                if isinstance(decided.decision, Placed):
                    await self._bind(decided.pod, decided.decision.node)
                else:
                    await self._keep_waiting(decided.pod, decided.decision, repeated=decided.repeated)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(MAX_PARALLEL, len(batch))):
                group.create_task(lane())

    async def _bind(self, pod: PodInfo, node: str) -> None:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._client.create_subresource(PODS, pod.namespace, pod.name, "binding", binding)
        except ApiError as error:
            if not isinstance(error, NotFound | Conflict):
                log.warning("binding %s/%s to %s: %s", pod.namespace, pod.name, node, error)
                self._refused_s = 1.0
            self._feed.unassume(pod)
            return
        self._refused_s = 0.0
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        await self._events.record(_regarding(pod), EventNote("Normal", "Scheduled", message), action="Binding")

    async def _keep_waiting(self, pod: PodInfo, waiting: Waiting, *, repeated: bool) -> None:
        """Say why the pod waits, and ask its victims to go. What many wait for is not said anew to each."""
        current = self._feed.pods.get(pod.namespace, pod.name)
        if current is None or current["metadata"]["uid"] != pod.uid:
            return
        if repeated and (condition_of(current, "PodScheduled") or {}).get("reason") == UNSCHEDULABLE:
            return
        nominated = ""
        if waiting.preemption is not None:
            nominated = waiting.preemption.node
            for victim in waiting.preemption.victims:
                await self._preempt(victim, pod, nominated)
        if await self._write_condition(current, waiting.message, nominated):
            note = EventNote("Warning", "FailedScheduling", waiting.message)
            await self._events.record(_regarding(pod), note, action="Scheduling")

    async def _write_condition(self, pod: Object, message: str, nominated: str) -> bool:
        """Returns whether there was anything new to say."""
        condition = self._unschedulable(pod, message)
        before = condition_of(pod, "PodScheduled")
        if condition == before and not nominated:
            return False
        metadata, status = pod["metadata"], pod.get("status") or {}
        others = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
        patch: Object = {
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "status": {"conditions": [*others, condition]},
        }
        if nominated:
            patch["status"]["nominatedNodeName"] = nominated
        try:
            await self._client.patch(PODS, metadata["namespace"], metadata["name"], patch, subresource="status")
        except Conflict:
            self._feed.queue.stir(metadata["uid"])
            return False
        except ApiError as error:
            log.warning("status of %s/%s: %s", metadata["namespace"], metadata["name"], error)
            return False
        return condition != before

    def _unschedulable(self, pod: Object, message: str) -> Object:
        before = condition_of(pod, "PodScheduled") or {}
        since = before.get("lastTransitionTime") if before.get("status") == "False" else None
        generation = pod["metadata"].get("generation")
        return {
            "type": "PodScheduled",
            **({"observedGeneration": generation} if generation else {}),
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": since or format_time(self._now()),
            "reason": UNSCHEDULABLE,
            "message": message,
        }

    async def _preempt(self, victim: PodInfo, pod: PodInfo, node: str) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastTransitionTime": format_time(self._now()),
            "reason": "PreemptionByScheduler",
            "message": f"{DEFAULT_SCHEDULER}: preempting to accommodate a higher priority pod",
        }
        patch = {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(
                PODS, victim.namespace, victim.name, patch, patch_type="strategic", subresource="status"
            )
            await self._client.delete(PODS, victim.namespace, victim.name, uid=victim.uid)
        except (NotFound, Conflict):
            return
        note = EventNote("Normal", "Preempted", f"Preempted by pod {pod.uid} on node {node}")
        await self._events.record(_regarding(victim), note, action="Preempting")


def _is_plain(pod: PodInfo) -> bool:
    """Whether only the nodes matter to where the pod goes: then its like fare alike."""
    return not pod.neighbours and not pod.claims and not pod.nominated


def _regarding(pod: PodInfo) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
    }
