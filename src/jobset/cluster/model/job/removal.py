"""Which active pods go first when a Job has too many. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobset.api.meta import parse_time
from jobset.cluster.model.job.pods import JobPod, ready_since, restarts
from jobset.cluster.model.job.spec import JobSpec

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def pods_to_remove(spec: JobSpec, active: Sequence[JobPod], at_least: int) -> list[JobPod]:
    """`at_least` pods, least useful first; of an Indexed Job also every doublet and every pod without a valid index."""
    removed: list[JobPod] = []
    left = list(active)
    if spec.indexed:
        removed, left = _surplus(spec, active)
    if at_least > len(removed):
        left.sort(key=_usefulness)
        removed.extend(left[: at_least - len(removed)])
    return removed


def _surplus(spec: JobSpec, active: Iterable[JobPod]) -> tuple[list[JobPod], list[JobPod]]:
    removed: list[JobPod] = []
    by_index: dict[int, list[JobPod]] = {}
    for pod in active:
        if pod.index is not None and spec.counts_index(pod.index):
            by_index.setdefault(pod.index, []).append(pod)
        else:
            removed.append(pod)
    for pods in by_index.values():
        if len(pods) > 1:
            pods.sort(key=_usefulness)
            removed.extend(pods[:-1])
    return removed, [pods[-1] for pods in by_index.values()]


def _usefulness(pod: JobPod) -> tuple[bool, int, bool, float, int, float]:
    """Grows with what would be lost: bound to a node, running, ready, ready for long, few restarts, old."""
    ready = ready_since(pod.raw)
    return (
        bool(pod.raw["spec"].get("nodeName")),
        _PHASES.get(pod.phase, 1),
        ready is not None,
        -parse_time(ready).timestamp() if ready else 0.0,
        -restarts(pod.raw),
        -parse_time(pod.raw["metadata"]["creationTimestamp"]).timestamp(),
    )
