"""The JobSet controller: what it watches, how it observes one JobSet, and its pass.

Runs on any cluster behind the client port. Everything that is decided is decided by `core.plan`; this file only brings
the caches' content to it, and its plan to the applier.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TypeAlias, TypeGuard, cast

import msgspec

from jobset.api import labels
from jobset.api.errors import Invalid
from jobset.api.jobs import Job
from jobset.api.jobset import API_VERSION, KIND, JobSet, from_object
from jobset.api.meta import Object, OwnerReference, controller_of
from jobset.api.resources import JOBS, JOBSETS, PERSISTENT_VOLUME_CLAIMS, SERVICES, Resource
from jobset.client.port import Client
from jobset.core.buckets import failure_of
from jobset.core.features import FeatureGates
from jobset.core.names import service_name
from jobset.core.observed import Observed, is_controlled_by, observed_of
from jobset.core.plan import plan
from jobset.core.replicated_jobs_status import is_ready
from jobset.core.volumes import claim_names
from jobset.reconcile.apply import Applier, PassFailed
from jobset.reconcile.events import EventRecorder
from jobset.reconcile.informer import Informer, Key, key_of
from jobset.reconcile.worker import Controller, Outcome

DEFAULT_WORKERS = 8
PACE_PER_JOB_S = 0.001
MAX_PACE_S = 1.0
"""A pass costs time for each Job, and each Job changes: so changes that can wait are gathered for a time that grows
with the Jobs. That keeps the passes' share of the time constant, and the status writes few."""

_BY_OWNER = "controller-uid"
_RAW = cast("type[Object]", dict)
_Address: TypeAlias = tuple[Resource, str, str]
"""Resource, namespace and name of an object that is in a JobSet's way."""


class JobSetController:
    """Brings about what JobSets ask for, and keeps their status. `run` runs until cancelled."""

    def __init__(
        self,
        client: Client,
        now: Callable[[], datetime],
        gates: FeatureGates | None = None,
        *,
        workers: int = DEFAULT_WORKERS,
    ) -> None:
        self._now = now
        self._gates = gates or FeatureGates()
        self._jobsets = Informer(client, JOBSETS, _RAW)
        self._jobs = Informer(client, JOBS, Job, indexes={_BY_OWNER: _owner_uid})
        self._services = Informer(client, SERVICES, _RAW)
        self._claims = Informer(client, PERSISTENT_VOLUME_CLAIMS, _RAW)
        self._informers: tuple[Informer[Object] | Informer[Job], ...] = (
            self._jobsets,
            self._jobs,
            self._services,
            self._claims,
        )
        self._applier = Applier(client, JOBSETS, EventRecorder(client, "jobset", now))
        caches = {informer.resource: informer.cache for informer in self._informers}
        self._controller = Controller("jobset", self.run_pass, caches, workers=workers)
        self._in_the_way: dict[_Address, set[Key]] = {}
        self._waits_on: dict[Key, frozenset[_Address]] = {}
        self._jobsets.add_handler(self._on_jobset)
        self._jobs.add_handler(self._on_job)
        self._services.add_handler(self._on_service)
        self._claims.add_handler(self._on_claim)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run(), name=f"informer {informer.resource}")
            for informer in self._informers:
                await informer.wait_synced()
            await self._controller.run()

    async def run_pass(self, key: Key) -> Outcome:
        """One pass over the JobSet of this key."""
        observed = self.observe(key)
        if observed is None:
            self._remember(key, ())
            return Outcome()
        self._remember(key, _in_the_way(observed))
        decided = plan(observed)
        applied = await self._applier.apply(observed.raw, decided)
        return Outcome(applied, decided.requeue_after_s)

    def observe(self, key: Key) -> Observed | None:
        """What the caches know about a JobSet; None when there is no such JobSet."""
        namespace, name = key
        raw = self._jobsets.cache.get(namespace, name)
        if raw is None:
            return None
        jobset = _view(raw)
        wanted_claims = claim_names(jobset)
        return observed_of(
            raw,
            jobset,
            jobs=self._jobs.cache.by_index(_BY_OWNER, jobset.metadata.uid),
            find_job=lambda job: self._jobs.cache.get(namespace, job),
            service=self._services.cache.get(namespace, service_name(jobset)),
            claims=[claim for claim in wanted_claims if self._claims.cache.get(namespace, claim) is not None],
            gates=self._gates,
            now=self._now(),
        )

    def _on_jobset(self, old: Object | None, new: Object | None) -> None:
        key = key_of(new or old)
        if old is not None and new is not None and _only_progress(old, new):
            self._controller.queue.add_after(key, self._pace_s(key))
        else:
            self._controller.queue.add(key)

    def _on_job(self, old: Job | None, new: Job | None) -> None:
        if old is not None and new is not None and _same_to_us(old, new):
            return
        urgent = new is not None and failure_of(new) is not None
        for job in (old, new):
            if job is not None and _is_jobset(owner := job.metadata.controller):
                key = (job.metadata.namespace, owner.name)
                self._controller.queue.add_after(key, 0.0 if urgent else self._pace_s(key))
        self._wake_waiting(JOBS, key_of(new or old))

    def _on_service(self, old: Object | None, new: Object | None) -> None:
        for service in (old, new):
            owner = controller_of(service) if service is not None else None
            if owner is not None and owner.get("kind") == KIND and owner.get("apiVersion") == API_VERSION:
                self._controller.queue.add((key_of(service)[0], owner["name"]))
        self._wake_waiting(SERVICES, key_of(new or old))

    def _on_claim(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            jobset = (old["metadata"].get("labels") or {}).get(labels.JOBSET_NAME)
            if jobset:
                self._controller.queue.add((key_of(old)[0], jobset))

    def _pace_s(self, key: Key) -> float:
        raw = self._jobsets.cache.get(*key)
        if raw is None:
            return 0.0
        jobs: int = sum(each.get("replicas", 1) for each in raw["spec"].get("replicatedJobs") or ())
        return min(PACE_PER_JOB_S * jobs, MAX_PACE_S)

    def _wake_waiting(self, resource: Resource, key: Key) -> None:
        for waiting in sorted(self._in_the_way.get((resource, *key), ())):
            self._controller.queue.add(waiting)

    def _remember(self, key: Key, addresses: Iterable[_Address]) -> None:
        """What is in this JobSet's way: it is looked at again when one of these changes."""
        new = frozenset(addresses)
        old = self._waits_on.get(key, frozenset())
        for address in old - new:
            self._in_the_way[address].discard(key)
            if not self._in_the_way[address]:
                del self._in_the_way[address]
        for address in new - old:
            self._in_the_way.setdefault(address, set()).add(key)
        if new:
            self._waits_on[key] = new
        else:
            self._waits_on.pop(key, None)


def _view(raw: Object) -> JobSet:
    try:
        return from_object(raw)
    except msgspec.ValidationError as error:
        raise PassFailed([Invalid(f"not a JobSet that admission would let pass: {error}")]) from error


def _in_the_way(observed: Observed) -> list[_Address]:
    namespace = observed.jobset.metadata.namespace
    addresses: list[_Address] = [(JOBS, namespace, job.metadata.name) for job in observed.foreign]
    if observed.service is not None and not is_controlled_by(observed.service, observed.jobset):
        addresses.append((SERVICES, namespace, observed.service["metadata"]["name"]))
    return addresses


def _is_jobset(owner: OwnerReference | None) -> TypeGuard[OwnerReference]:
    return owner is not None and owner.kind == KIND and owner.api_version == API_VERSION


def _owner_uid(job: Job) -> tuple[str, ...]:
    owner = job.metadata.controller
    return (owner.uid,) if _is_jobset(owner) else ()


def _only_progress(old: Object, new: Object) -> bool:
    """Whether a change of a JobSet is no more than its own status showing how far its Jobs are."""
    before, after = old.get("status") or {}, new.get("status") or {}
    return (
        old["metadata"].get("generation") == new["metadata"].get("generation")
        and old["metadata"]["uid"] == new["metadata"]["uid"]
        and before.get("restarts") == after.get("restarts")
        and before.get("terminalState") == after.get("terminalState")
        and _job_restarts(before) == _job_restarts(after)
        and "deletionTimestamp" not in new["metadata"]
    )


def _job_restarts(status: Object) -> list[object]:
    return [entry.get("jobRestarts") for entry in status.get("replicatedJobsStatus") or ()]


def _same_to_us(old: Job, new: Job) -> bool:
    """Whether a change of a Job cannot matter to its JobSet: most are about pods that come and go."""
    before, after = old.metadata, new.metadata
    return (
        before.uid == after.uid
        and before.generation == after.generation
        and before.deletion_timestamp == after.deletion_timestamp
        and before.labels == after.labels
        and before.owner_references == after.owner_references
        and old.status.conditions == new.status.conditions
        and old.status.start_time == new.status.start_time
        and (old.status.active > 0) == (new.status.active > 0)
        and is_ready(old) == is_ready(new)
    )
