"""The placement controller: sends the followers of exclusively placed Jobs where their leader is.

Watches pods and Jobs of JobSets only, and nodes for their topology labels. One key is one Job. What is to be done is
decided by `core.placement`, whose `place_pod` is the other half: it must admit the pods.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from typing import cast

from jobset.api import labels
from jobset.api.meta import Object, controller_of
from jobset.api.resources import JOBS, NODES, PODS
from jobset.client.port import Client
from jobset.core.actions import Action, Plan
from jobset.core.placement import is_leader, is_placed_exclusively, job_of, job_pods, leader_is_over, place_followers
from jobset.reconcile.apply import Applier
from jobset.reconcile.events import EventRecorder
from jobset.reconcile.informer import Informer, Key, key_of
from jobset.reconcile.worker import Controller, Outcome

UNKNOWN_DOMAIN_RETRY_S = 5.0
"""How long to wait for a leader's node, or its topology label, to show up."""

_BY_JOB = "job"
_RAW = cast("type[Object]", dict)


class PlacementController:
    """`run` runs until cancelled."""

    def __init__(self, client: Client, now: Callable[[], datetime], *, workers: int = 4) -> None:
        self._now = now
        self._pods = Informer(client, PODS, _RAW, label_selector=labels.JOBSET_NAME, indexes={_BY_JOB: _job_keys})
        self._nodes = Informer(client, NODES, _RAW)
        self._jobs = Informer(client, JOBS, _RAW, label_selector=labels.JOBSET_NAME)
        self._applier = Applier(client, PODS, EventRecorder(client, "pod", now))
        self._controller = Controller("placement", self.run_pass, {PODS: self._pods.cache}, workers=workers)
        self._pods.add_handler(self._on_pod)
        self._jobs.add_handler(self._on_job)

    async def run(self) -> None:
        informers = (self._nodes, self._jobs, self._pods)
        async with asyncio.TaskGroup() as group:
            for informer in informers:
                group.create_task(informer.run(), name=f"informer {informer.resource}")
            for informer in informers:
                await informer.wait_synced()
            await self._controller.run()

    async def run_pass(self, key: Key) -> Outcome:
        """One pass over the pods of the Job of this key; pods of an earlier Job of its name are another Job's."""
        by_owner: dict[str, list[Object]] = defaultdict(list)
        for pod in self._pods.cache.by_index(_BY_JOB, "/".join(key)):
            by_owner[(controller_of(pod) or {}).get("uid", "")].append(pod)
        actions: list[Action] = []
        retry_after_s = None
        job = self._jobs.cache.get(*key)
        for uid, pods in by_owner.items():
            current = job if job is not None and job["metadata"]["uid"] == uid else None
            placed = job_pods(pods, current, lambda node: self._nodes.cache.get("", node))
            if placed is None:
                continue
            if placed.guide is not None and placed.domain is None:
                retry_after_s = UNKNOWN_DOMAIN_RETRY_S
            actions += place_followers(placed, self._now())
        if not actions:
            return Outcome(requeue_after_s=retry_after_s)
        root = next(iter(by_owner.values()))[0]
        return Outcome(await self._applier.apply(root, Plan(tuple(actions))), retry_after_s)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        if pod is None or not is_placed_exclusively(pod):
            return
        if old is not None and new is not None and not is_leader(new) and old["spec"] == new["spec"]:
            old_status, new_status = old.get("status") or {}, new.get("status") or {}
            if old_status.get("conditions") == new_status.get("conditions"):
                return
        if job := job_of(pod):
            self._controller.queue.add((key_of(pod)[0], job))

    def _on_job(self, old: Object | None, new: Object | None) -> None:
        if new is not None and is_placed_exclusively(new) and leader_is_over(new) and not leader_is_over(old):
            self._controller.queue.add(key_of(new))


def _job_keys(pod: Object) -> tuple[str, ...]:
    if not is_placed_exclusively(pod):
        return ()
    job = job_of(pod)
    return (f"{key_of(pod)[0]}/{job}",) if job else ()
