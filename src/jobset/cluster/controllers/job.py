"""The Job controller: keeps caches of Jobs and pods, runs `model.job.plan` for each Job that changed, carries it out.

Decides nothing itself but when to look: a failed pod or a changed spec at once, all else in batches, as many changes of
one Job's pods arrive together. Pods are found by their controller's UID, never by labels.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from jobset.api.errors import NotFound
from jobset.api.labels import BATCH_CONTROLLER_UID, BATCH_JOB_NAME
from jobset.api.meta import Object
from jobset.api.resources import JOBS, PODS
from jobset.client.port import Client
from jobset.cluster.controllers.recorder import CoreEventRecorder
from jobset.cluster.model.job.backoff import KUBERNETES_DELAYS, NO_FAILURES, Failures, RetryDelays
from jobset.cluster.model.job.claim import untrack
from jobset.cluster.model.job.conditions import is_finished
from jobset.cluster.model.job.plan import JobPlan, Observed, plan
from jobset.cluster.model.job.pods import is_finalized, ready_since, restarts
from jobset.cluster.model.job.spec import is_managed_here
from jobset.core.actions import Plan, Why
from jobset.reconcile.apply import Applied, Applier, PassFailed
from jobset.reconcile.informer import Key, SharedInformers, key_of
from jobset.reconcile.worker import Controller, Outcome

BATCH_S = 0.02
BATCH_MAX_S = 1.0
PAUSE_S_PER_POD = 0.0002
"""Passes are linear in a Job's pods; pauses that are, too, keep them a small part of the time."""

_BY_JOB = "controlling-job"
_UNCONTROLLED = "without-controller"
_MANUAL = "manual-selector"
_SUFFIX_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
_ORPHANED = Why("Orphaned", "The pod's Job is gone, so nobody will count it")


def job_of(pod: Object) -> Object | None:
    """The owner reference of the Job that controls a raw pod."""
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            is_job = owner["kind"] == "Job" and owner["apiVersion"] == "batch/v1"
            return owner if is_job else None
    return None


class JobController:
    """`retry_delays`: back-off of failed pods. `seed` makes the names of pods repeatable."""

    def __init__(
        self,
        client: Client,
        informers: SharedInformers,
        now: Callable[[], datetime],
        *,
        retry_delays: RetryDelays = KUBERNETES_DELAYS,
        seed: int | None = None,
    ) -> None:
        self._client = client
        self._informers = informers
        self._now = now
        self._retry_delays = retry_delays
        self._suffixes = _suffixes(random.Random(seed))
        self._failures: dict[str, Failures] = {}
        self._last_pass_s: dict[Key, float] = {}
        jobs, pods = informers.get(JOBS), informers.get(PODS)
        self._jobs, self._pods = jobs.cache, pods.cache
        jobs.add_index(_MANUAL, _manual_selector_namespace)
        pods.add_index(_BY_JOB, _controlling_uid)
        pods.add_index(_UNCONTROLLED, _uncontrolled)
        jobs.add_handler(self._job_changed)
        pods.add_handler(self._pod_changed)
        recorder = CoreEventRecorder(client, "job-controller", now)
        self._applier = Applier(client, JOBS, recorder)
        caches = {JOBS: jobs.cache, PODS: pods.cache}
        self._controller = Controller("job", self._pass, caches)
        self._orphans = Controller("job orphans", self._orphan_pass, caches)

    async def run(self) -> None:
        await self._informers.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run(), name="job controller")
            group.create_task(self._orphans.run(), name="job controller's orphans")

    # When to look.

    def _job_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self._forget(old)
        if new is None:
            return
        urgent = old is None or any(
            old["metadata"].get(field) != new["metadata"].get(field)
            for field in ("uid", "generation", "deletionTimestamp")
        )
        self._look(key_of(new), urgent=urgent)

    def _forget(self, job: Object) -> None:
        uid = job["metadata"]["uid"]
        self._failures.pop(uid, None)
        self._last_pass_s.pop(key_of(job), None)
        for pod in self._pods.by_index(_BY_JOB, uid):
            self._orphans.queue.add(key_of(pod))

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and _digest(old) == _digest(new):
            return
        urgent = new is not None and _phase(new) == "Failed" and (old is None or _phase(old) != "Failed")
        for pod in (old, new):
            owner = job_of(pod) if pod is not None else None
            if pod is not None and owner is not None:
                self._look((pod["metadata"]["namespace"], owner["name"]), urgent=urgent)
        if new is not None:
            self._look_for_owner(new)

    def _look_for_owner(self, pod: Object) -> None:
        """A pod without a Job may be adopted; if it is not, its finalizer has to go."""
        metadata = pod["metadata"]
        namespace, owner = metadata["namespace"], job_of(pod)
        if owner is not None:
            job = self._jobs.get(namespace, owner["name"])
            if (job is None or job["metadata"]["uid"] != owner["uid"]) and is_finalized(pod):
                self._orphans.queue.add(key_of(pod))
        elif _uncontrolled(pod):
            if name := (metadata.get("labels") or {}).get(BATCH_JOB_NAME):
                self._look((namespace, name), urgent=False)
            for job in self._jobs.by_index(_MANUAL, namespace):
                self._look(key_of(job), urgent=False)
            if is_finalized(pod):
                self._orphans.queue.add(key_of(pod))

    def _look(self, key: Key, *, urgent: bool) -> None:
        job = self._jobs.get(*key)
        if job is None or not is_managed_here(job):
            return
        pause_s = min(PAUSE_S_PER_POD * job["spec"].get("parallelism", 1), BATCH_MAX_S)
        if urgent:
            since_s = asyncio.get_running_loop().time() - self._last_pass_s.get(key, -BATCH_MAX_S)
            self._controller.queue.add_after(key, pause_s - since_s)
        else:
            self._controller.queue.add_after(key, max(BATCH_S, pause_s))

    # Passes.

    async def _pass(self, key: Key) -> Outcome:
        job = self._jobs.get(*key)
        if job is None:
            return Outcome()
        self._last_pass_s[key] = asyncio.get_running_loop().time()
        uid = job["metadata"]["uid"]
        decided = plan(self._observe(job))
        applied = await self._carry_out(job, decided)
        if is_finished(job):
            self._failures.pop(uid, None)
        else:
            self._failures[uid] = decided.failures
        return Outcome(applied, decided.requeue_after_s)

    def _observe(self, job: Object) -> Observed:
        uid = job["metadata"]["uid"]
        orphans = self._pods.by_index(_UNCONTROLLED, uid)
        if job["spec"].get("manualSelector"):
            orphans += self._pods.by_index(_UNCONTROLLED, job["metadata"]["namespace"])
        return Observed(
            job=job,
            pods=self._pods.by_index(_BY_JOB, uid),
            now=self._now(),
            suffixes=self._suffixes,
            orphans=orphans,
            failures=self._failures.get(uid, NO_FAILURES),
            retry_delays=self._retry_delays,
        )

    async def _carry_out(self, job: Object, decided: JobPlan) -> Applied:
        """One step after the other; a later status is written over what an earlier step wrote."""
        uid = job["metadata"]["uid"]

        def on_status_written() -> None:
            self._failures[uid] = decided.failures

        done = Applied()
        for step in decided.steps:
            try:
                applied = await self._applier.apply(job, step, on_status_written)
            except PassFailed as error:
                raise PassFailed(error.errors, _joined(done, error.applied)) from error
            done = _joined(done, applied)
            job = _after(job, step, applied)
        return done

    async def _orphan_pass(self, key: Key) -> Outcome:
        pod = self._pods.get(*key)
        if pod is None or not is_finalized(pod) or await self._has_job(pod):
            return Outcome()
        return Outcome(await self._applier.apply(pod, Plan((untrack(pod, _ORPHANED),))))

    async def _has_job(self, pod: Object) -> bool:
        """Asks the server: a cache that is behind must not cost a pod its finalizer."""
        owner = job_of(pod)
        if owner is None:
            return not _uncontrolled(pod)
        try:
            job = await self._client.get(JOBS, pod["metadata"]["namespace"], owner["name"], dict)
        except NotFound:
            return False
        return bool(job["metadata"]["uid"] == owner["uid"])


def _joined(first: Applied, second: Applied | None) -> Applied:
    if second is None:
        return first
    versions = {**first.versions, **second.versions}
    return Applied(versions, [*first.failures, *second.failures], first.stale or second.stale)


def _after(job: Object, step: Plan, applied: Applied) -> Object:
    """The Job as `step` left it."""
    version = applied.versions.get(JOBS)
    if step.status is None or version is None:
        return job
    return {**job, "metadata": {**job["metadata"], "resourceVersion": str(version)}, "status": step.status}


def _digest(pod: Object) -> tuple[Any, ...]:
    """What of a pod matters to its Job; everything else may change unseen."""
    metadata = pod["metadata"]
    return (
        _phase(pod),
        "deletionTimestamp" in metadata,
        ready_since(pod) is not None,
        restarts(pod),
        metadata.get("finalizers"),
        metadata.get("labels"),
        metadata.get("ownerReferences"),
    )


def _phase(pod: Object) -> Any:
    return pod.get("status", {}).get("phase")


def _controlling_uid(pod: Object) -> tuple[str, ...]:
    owner = job_of(pod)
    return (owner["uid"],) if owner is not None else ()


def _uncontrolled(pod: Object) -> tuple[str, ...]:
    """For pods without any controller: the UID of the Job that their labels name, or else their namespace."""
    metadata = pod["metadata"]
    if any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()):
        return ()
    return ((metadata.get("labels") or {}).get(BATCH_CONTROLLER_UID) or metadata["namespace"],)


def _manual_selector_namespace(job: Object) -> tuple[str, ...]:
    return (job["metadata"]["namespace"],) if job["spec"].get("manualSelector") else ()


def _suffixes(source: random.Random) -> Iterator[str]:
    while True:
        yield "".join(source.choices(_SUFFIX_CHARACTERS, k=5))
