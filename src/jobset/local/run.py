"""Runs documents to their end: creates them, follows what happens, and says how it ended.

The client may belong to a cluster of this very program or to one that runs already. Nothing is drawn here: everything
worth showing goes to `on_event`, and `Run` offers its caches to whoever draws.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

from jobset.api import labels
from jobset.api.errors import AlreadyExists, NotFound
from jobset.api.meta import Object, condition_of
from jobset.api.resources import (
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    JOBSETS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
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
        NAMESPACES, CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, PERSISTENT_VOLUME_CLAIMS, SERVICES, PODS, JOBS, JOBSETS,
    )
}  # fmt: skip
WORKLOADS = (JOBSETS, JOBS, PODS)
TAIL_LINES = 5
STOP_MARGIN_S = 5.0

State: TypeAlias = Literal["Running", "Completed", "Failed", "Deleted"]
PodLogs: TypeAlias = Callable[[Object, str, int], Path]
"""(pod, container, attempt) -> its log file"""


@dataclass(frozen=True, slots=True)
class LineWritten:
    """A container wrote a line."""

    source: Source
    line: LogLine


@dataclass(frozen=True, slots=True)
class Changed:
    """An object was added (old is None), changed, or deleted (new is None)."""

    resource: Resource
    old: Object | None
    new: Object | None


RunEvent: TypeAlias = LineWritten | Changed


@dataclass(slots=True)
class Target:
    """One document that decides the end: a JobSet, Job or Pod."""

    resource: Resource
    namespace: str
    name: str
    started_at: datetime
    state: State = "Running"
    message: str = ""
    ended_at: datetime | None = None
    history: History | None = None
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
        self._changed = asyncio.Event()
        self._follower = LogFollower(lambda source, line: on_event(LineWritten(source, line)))
        self._informers = SharedInformers(client)
        for resource in (*WORKLOADS, EVENTS):
            informer = self._informers.get(resource)
            informer.add_handler(self._handler(resource))
        self.jobsets = self._informers.get(JOBSETS).cache
        self.jobs = self._informers.get(JOBS).cache
        self.pods = self._informers.get(PODS).cache

    async def follow(self) -> None:
        """Keep caches and logs current until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informers.run(), name="run informers")
            group.create_task(self._follower.run(), name="log follower")

    async def create(self) -> None:
        """Create all documents, and the namespaces they name. Raises ApiError for the first that is refused."""
        await self._informers.wait_synced()
        for namespace in sorted({document["metadata"].get("namespace", "") for document in self._documents} - {""}):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            with contextlib.suppress(AlreadyExists):
                await self._client.create(NAMESPACES, body)
        for document in self._documents:
            resource = RESOURCES[document["kind"]]
            created = await self._client.create(resource, document)
            if resource in WORKLOADS:
                self._add_target(resource, created)

    async def wait_finished(self) -> None:
        """Until every workload ended, in whatever way."""
        await self._finished.wait()

    async def stop(self) -> None:
        """Delete the workloads as a user would, and wait for their pods to end within their grace periods."""
        for target in self.targets.values():
            try:
                await self._client.delete(target.resource, target.namespace, target.name, propagation="Foreground")
            except NotFound:
                continue
        grace_s = max((pod["spec"].get("terminationGracePeriodSeconds", 30) for pod in self.own_pods()), default=0)
        try:
            async with asyncio.timeout(grace_s + STOP_MARGIN_S):
                while self.own_pods():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass  # closing the cluster kills what is left
        self._follower.read_all()

    def own_pods(self) -> list[Object]:
        """The pods of our workloads that still exist and have not ended."""
        return [
            pod
            for pod in self.pods.all()
            if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed") and self._target_of(pod) is not None
        ]

    def failed(self) -> bool:
        return any(target.state != "Completed" for target in self.targets.values())

    def _add_target(self, resource: Resource, created: Object) -> None:
        namespace, name = key_of(created)
        history = History(self._now, self._tail) if resource == JOBSETS else None
        target = Target(resource, namespace, name, self._now(), history=history, last=created)
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
            self._changed.set()

        return handle

    def _update_target(self, target: Target, new: Object | None) -> None:
        if new is not None:
            target.last = new
            if target.history is not None:
                target.history.jobset_changed(new)
        if target.state == "Running":
            target.state, target.message = _state_of(target.resource, new)
            if target.state != "Running":
                target.ended_at = self._now()
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
        if new is not None and target.history is not None:
            target.history.pod_changed(new)
        status = pod.get("status") or {}
        for kind in ("initContainerStatuses", "containerStatuses"):
            for container in status.get(kind) or ():
                self._follow_container(pod, container, gone=new is None)

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
