"""The view of a batch/v1 Job that JobSet's decisions need. Pure."""

from __future__ import annotations

from jobset.api.meta import Condition, Object, ObjectMeta, View


class PodTemplateView(View, frozen=True):
    """What resuming may change in a suspended Job's pod template."""

    metadata: Object = {}
    spec: Object = {}


class JobSpec(View, frozen=True):
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool = False
    template: PodTemplateView = PodTemplateView()


class JobStatus(View, frozen=True):
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    start_time: str = ""
    conditions: tuple[Condition, ...] = ()


class Job(View, frozen=True):
    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
