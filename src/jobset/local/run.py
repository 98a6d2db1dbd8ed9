"""Runs documents to their end: creates them, follows what happens, and says how it ended.

The client may belong to a cluster of this very program or to one that runs already. Nothing is drawn here: everything
worth showing goes to `on_event`, and `Run` offers its caches to whoever draws.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct, field

from jobset.api import labels
from jobset.api.errors import AlreadyExists, ApiError, NotFound
from jobset.api.meta import Object, condition_of
from jobset.api.resources import (
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    JOBSETS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from jobset.client.port import Client
from jobset.cluster.kubelet.cri_log import LogLine
from jobset.local.follow import LogFollower, Source, tail
from jobset.local.history import History
from jobset.reconcile.informer import Key, SharedInformers, key_of

# In the order of creation: what pods refer to comes before what makes pods.
RESOURCES: dict[str, Resource] = {
    resource.kind: resource
    for resource in (
        NAMESPACES, PRIORITY_CLASSES, CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, PERSISTENT_VOLUME_CLAIMS, SERVICES, PODS,
        JOBS, JOBSETS,
    )
}  # fmt: skip
WORKLOADS = (JOBSETS, JOBS, PODS)
TAIL_LINES = 5
STOP_MARGIN_S = 5.0
_BY_TARGET = "target of run"

State: TypeAlias = Literal["Running", "Completed", "Failed", "Deleted"]
PodLogs: TypeAlias = Callable[[Object, str, int], Path]
"""(pod, container, attempt) -> its log file"""


class LineWritten(Struct, frozen=True):
    """A container wrote a line."""

    source: Source
    line: LogLine


class Changed(Struct, frozen=True):
    """An object was added (old is None), changed, or deleted (new is None)."""

    resource: Resource
    old: Object | None
    new: Object | None


class Refused(Exception):
    """The API did not take a document."""

    def __init__(self, document: Object, error: ApiError) -> None:
        super().__init__(error.message)
        self.document = document
        self.error = error


RunEvent: TypeAlias = LineWritten | Changed


class Target(Struct):
    """One document that decides the end: a JobSet, Job or Pod."""

    resource: Resource
    namespace: str
    name: str
    started_at: datetime
    history: History
    state: State = "Running"
    message: str = ""
    ended_at: datetime | None = None
    last: Object = field(default_factory=dict)


class Run:
    """One use: `create`, then `wait_finished`, then `stop`; `follow` runs beside them."""

    def __init__(
        self,
        client: Client,
        documents: Sequence[Object],
        logs: PodLogs,
        now: Callable[[], datetime],
        on_event: Callable[[RunEvent], None],
    ) -> None:
        self.targets: dict[tuple[Resource, Key], Target] = {}
        self._client = client
        self._documents = sorted(documents, key=lambda document: list(RESOURCES).index(document["kind"]))
        self._logs = logs
        self._now = now
        self._on_event = on_event
        self._finished = asyncio.Event()
        self._stopping = False
        self._live: set[Key] = set()
        self._none_live = asyncio.Event()
        self._none_live.set()
        self._follower = LogFollower(lambda source, line: on_event(LineWritten(source, line)))
        self._informers = SharedInformers(client)
        for resource in (*WORKLOADS, EVENTS):
            informer = self._informers.get(resource)
            informer.add_handler(self._handler(resource))
        self._informers.get(JOBS).add_index(_BY_TARGET, _jobset_of_job)
        self._informers.get(PODS).add_index(_BY_TARGET, _owners_of_pod)

    async def follow(self) -> None:
        """Keep caches and logs current until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informers.run(), name="run informers")
            group.create_task(self._follower.run(), name="log follower")

    async def create(self) -> None:
        """Create all documents, after the namespaces they name. Raises Refused for the first that is."""
        await self._informers.wait_synced()
        own = {document["metadata"].get("name") for document in self._documents if document["kind"] == "Namespace"}
        named = {document["metadata"].get("namespace", "") for document in self._documents}
        for namespace in sorted(named - own - {""}):
            await self._create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for document in self._documents:
            await self._create(document)

    async def _create(self, document: Object) -> None:
        resource = RESOURCES[document["kind"]]
        try:
            created = await self._client.create(resource, document)
        except AlreadyExists as error:
            if resource == NAMESPACES:
                return
            raise Refused(document, error) from error
        except ApiError as error:
            raise Refused(document, error) from error
        if resource in WORKLOADS:
            self._add_target(resource, created)

    async def wait_finished(self) -> None:
        """Until every workload ended, in whatever way."""
        await self._finished.wait()

    def jobs_of(self, jobset: Target) -> list[Object]:
        """The Jobs of a JobSet, of whatever attempt."""
        value = _index_value(JOBSETS, jobset.namespace, jobset.name)
        return self._informers.get(JOBS).cache.by_index(_BY_TARGET, value)

    def pods_of(self, target: Target) -> list[Object]:
        """The pods of a JobSet or a Job, of whatever attempt."""
        value = _index_value(target.resource, target.namespace, target.name)
        return self._informers.get(PODS).cache.by_index(_BY_TARGET, value)

    def find_pod(self, namespace: str, name: str) -> Object | None:
        return self._informers.get(PODS).cache.get(namespace, name)

    async def stop(self) -> None:
        """Delete the workloads as a user would, and wait for their pods to end within their grace periods.

        What the targets say of themselves stays as it was before.
        """
        self._stopping = True
        for target in self.targets.values():
            try:
                await self._client.delete(target.resource, target.namespace, target.name, propagation="Foreground")
            except NotFound:
                continue
        live = [pod for key in self._live if (pod := self.find_pod(*key)) is not None]
        grace_s = max((pod["spec"].get("terminationGracePeriodSeconds", 30) for pod in live), default=0)
        with contextlib.suppress(TimeoutError):  # closing the cluster kills what is left
            async with asyncio.timeout(grace_s + STOP_MARGIN_S):
                await self._none_live.wait()
        self._follower.read_all()

    @property
    def all_finished(self) -> bool:
        return self._finished.is_set()

    def failed(self) -> bool:
        return any(target.state != "Completed" for target in self.targets.values())

    def _add_target(self, resource: Resource, created: Object) -> None:
        namespace, name = key_of(created)
        history = History(self._now, self._tail)
        target = Target(resource, namespace, name, self._now(), history, last=created)
        self.targets[(resource, (namespace, name))] = target
        # Its first changes may have come before we knew its name.
        cached = self._informers.get(resource).cache.get(namespace, name)
        self._update_target(target, cached or created)

    def _handler(self, resource: Resource) -> Callable[[Object | None, Object | None], None]:
        def handle(old: Object | None, new: Object | None) -> None:
            some = new or old
            assert some is not None
            target = self.targets.get((resource, key_of(some)))
            if target is not None:
                self._update_target(target, new)
            if resource == PODS:
                self._pod_changed(old, new)
            self._on_event(Changed(resource, old, new))

        return handle

    def _update_target(self, target: Target, new: Object | None) -> None:
        if self._stopping:
            return
        if new is not None:
            target.last = new
            if target.resource == JOBSETS:
                target.history.jobset_changed(new)
        if target.state == "Running":
            target.state, target.message = _state_of(target.resource, new)
            if target.state != "Running":
                target.ended_at = self._now()
            if target.state in ("Completed", "Failed"):
                target.history.end(target.state, target.message)
        if all(other.state != "Running" for other in self.targets.values()) and self._all_created():
            self._finished.set()

    def _all_created(self) -> bool:
        return len(self.targets) == sum(RESOURCES[doc["kind"]] in WORKLOADS for doc in self._documents)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        target = self._target_of(pod)
        if target is None:
            return
        self._count_live(pod, gone=new is None)
        if new is not None:
            target.history.pod_changed(new)
        status = pod.get("status") or {}
        for kind in ("initContainerStatuses", "containerStatuses"):
            for container in status.get(kind) or ():
                self._follow_container(pod, container, gone=new is None)

    def _count_live(self, pod: Object, *, gone: bool) -> None:
        if gone or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            self._live.discard(key_of(pod))
        else:
            self._live.add(key_of(pod))
        if self._live:
            self._none_live.clear()
        else:
            self._none_live.set()

    def _follow_container(self, pod: Object, container: Object, *, gone: bool) -> None:
        state, restarts = container.get("state") or {}, container.get("restartCount", 0)
        if "waiting" in state and not container.get("lastState"):
            return
        metadata = pod["metadata"]
        for attempt in range(max(0, restarts - 1), restarts + 1):
            source = Source(metadata.get("namespace", ""), metadata["name"], container["name"], attempt)
            self._follower.add(source, self._logs(pod, container["name"], attempt))
            if gone or attempt < restarts or "terminated" in state:
                self._follower.finish(source)

    def _target_of(self, pod: Object) -> Target | None:
        namespace, name = key_of(pod)
        pod_labels = pod["metadata"].get("labels") or {}
        for resource, owner in (
            (JOBSETS, pod_labels.get(labels.JOBSET_NAME)),
            (JOBS, pod_labels.get(labels.BATCH_JOB_NAME)),
            (PODS, name),
        ):
            if owner is not None and (target := self.targets.get((resource, (namespace, owner)))) is not None:
                return target
        return None

    def _tail(self, pod: Object, container: str, attempt: int) -> tuple[LogLine, ...]:
        return tail(self._logs(pod, container, attempt), TAIL_LINES)


def _index_value(resource: Resource, namespace: str, name: str) -> str:
    return f"{resource.kind}/{namespace}/{name}"


def _jobset_of_job(job: Object) -> list[str]:
    name = (job["metadata"].get("labels") or {}).get(labels.JOBSET_NAME)
    return [_index_value(JOBSETS, job["metadata"].get("namespace", ""), name)] if name else []


def _owners_of_pod(pod: Object) -> list[str]:
    namespace, own = pod["metadata"].get("namespace", ""), pod["metadata"].get("labels") or {}
    owners = ((JOBSETS, own.get(labels.JOBSET_NAME)), (JOBS, own.get(labels.BATCH_JOB_NAME)))
    return [_index_value(resource, namespace, name) for resource, name in owners if name]


def _state_of(resource: Resource, obj: Object | None) -> tuple[State, str]:
    """How a workload stands: its state and its own sentence about it."""
    if obj is None:
        return "Deleted", "deleted before it finished"
    if resource == PODS:
        status = obj.get("status", {})
        phases: dict[str, State] = {"Succeeded": "Completed", "Failed": "Failed"}
        return phases.get(status.get("phase", ""), "Running"), status.get("message", "")
    completed = "Completed" if resource == JOBSETS else "Complete"
    for type_, state in ((completed, "Completed"), ("Failed", "Failed")):
        condition = condition_of(obj, type_)
        if condition is not None and condition["status"] == "True":
            return ("Completed" if state == "Completed" else "Failed"), condition.get("message", "")
    return "Running", ""
