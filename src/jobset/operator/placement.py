"""The placement controller: sends the followers of exclusively placed Jobs where their leader is.

Watches pods of JobSets only, and nodes for their topology labels. One key is one Job. What is to be done is decided by
`core.placement`, whose `place_pod` is the other half: it must admit the pods.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from typing import cast

from jobset.api import labels
from jobset.api.meta import Object, controller_of
from jobset.api.resources import NODES, PODS
from jobset.client.port import Client
from jobset.core.actions import Action, Plan
from jobset.core.placement import is_leader, is_placed_exclusively, job_of, job_pods, leader_of, place_followers
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
        self._applier = Applier(client, PODS, EventRecorder(client, "pod", now))
        self._controller = Controller("placement", self.run_pass, {PODS: self._pods.cache}, workers=workers)
        self._pods.add_handler(self._on_pod)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run(), name="informer pods")
            group.create_task(self._nodes.run(), name="informer nodes")
            await self._nodes.wait_synced()
            await self._pods.wait_synced()
            await self._controller.run()

    async def run_pass(self, key: Key) -> Outcome:
        """One pass over the pods of the Job of this key; pods of an earlier Job of its name are another Job's."""
        by_owner: dict[str, list[Object]] = defaultdict(list)
        for pod in self._pods.cache.by_index(_BY_JOB, "/".join(key)):
            by_owner[(controller_of(pod) or {}).get("uid", "")].append(pod)
        actions: list[Action] = []
        retry_after_s = None
        root: Object | None = None
        for pods in by_owner.values():
            leader = leader_of(pods)
            if leader is None:
                continue
            root = leader
            job = job_pods(leader, pods, self._nodes.cache.get("", leader["spec"]["nodeName"]))
            if job.domain is None:
                retry_after_s = UNKNOWN_DOMAIN_RETRY_S
            actions += place_followers(job, self._now())
        if root is None or not actions:
            return Outcome(requeue_after_s=retry_after_s)
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


def _job_keys(pod: Object) -> tuple[str, ...]:
    if not is_placed_exclusively(pod):
        return ()
    job = job_of(pod)
    return (f"{key_of(pod)[0]}/{job}",) if job else ()
