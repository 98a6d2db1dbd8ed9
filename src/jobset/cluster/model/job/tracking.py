"""How each pod's end gets on record once and only once. Pure.

Pods carry a finalizer until they are counted, so none can vanish unseen. A crash may come between any two writes:

1. status names the UIDs of newly ended pods in `uncountedTerminatedPods` (succeeded indexes need no UIDs: the index
   itself is the record);
2. their finalizers are removed;
3. named pods without a finalizer move to the counters.

After 1 a pod is named and not named again; a pod that was named and has no finalizer is counted by whoever comes next.
"""

from __future__ import annotations

from collections.abc import Set

from msgspec import Struct

from jobset.cluster.model.job.conditions import Verdict
from jobset.cluster.model.job.failure_policy import rule_on
from jobset.cluster.model.job.indexes import Indexes
from jobset.cluster.model.job.pods import JobPod, is_failed
from jobset.cluster.model.job.spec import JobSpec
from jobset.cluster.model.job.tally import Tally, Uncounted

MAX_UNCOUNTED = 500
"""Keeps the UIDs in one status below 20 KB."""


class Tracking(Struct, frozen=True):
    untrack: tuple[JobPod, ...]
    """Pods whose finalizer goes once `uncounted` is on record."""
    uncounted: Uncounted
    waiting: Uncounted
    """Those of `uncounted` that keep their finalizer for now."""
    indexes: Indexes
    """Completed indexes, the new ones included."""
    settled_succeeded: int
    settled_failed: int
    """Pods named by an earlier pass that have lost their finalizer: to be counted now."""
    capped: bool
    """There are more pods than one pass may take."""


def track(spec: JobSpec, pods: Tally, verdict: Verdict | None, *, leaving: Set[str], all_go: bool) -> Tracking:
    """`leaving`: UIDs of pods that give up their finalizer uncounted. `all_go`: the Job itself is being deleted."""
    candidates = [pod for pod in pods.pods if pod.tracked and pod.uid not in leaving]
    tracked = {pod.uid for pod in candidates}
    named_succeeded = [uid for uid in pods.uncounted.succeeded if uid in tracked]
    named_failed = [uid for uid in pods.uncounted.failed if uid in tracked]
    known = {*named_succeeded, *named_failed}
    settled_succeeded = len(pods.uncounted.succeeded) - len(named_succeeded)
    settled_failed = len(pods.uncounted.failed) - len(named_failed)
    if spec.indexed:
        candidates.sort(key=lambda pod: -1 if pod.index is None else pod.index)
    untrack: list[JobPod] = []
    new_indexes: list[int] = []
    capped = False
    for pod in candidates:
        if not (all_go or verdict or _is_settled(pod, spec, pods)):
            continue
        if len(new_indexes) + len(named_succeeded) + len(named_failed) >= MAX_UNCOUNTED:
            capped = True
            break
        untrack.append(pod)
        if pod.uid in known or not spec.counts_index(pod.index):
            continue
        if pod.phase == "Succeeded":
            if not spec.indexed:
                named_succeeded.append(pod.uid)
            elif pod.index is not None and pod.index not in pods.recorded_indexes:
                new_indexes.append(pod.index)
        elif _is_counted_failed(pod, spec, verdict):
            named_failed.append(pod.uid)
    return Tracking(
        untrack=tuple(untrack),
        uncounted=Uncounted(tuple(named_succeeded), tuple(named_failed)),
        waiting=Uncounted(_without(named_succeeded, untrack), _without(named_failed, untrack)),
        indexes=pods.recorded_indexes.with_indexes(new_indexes),
        settled_succeeded=settled_succeeded,
        settled_failed=settled_failed,
        capped=capped,
    )


def _without(uids: list[str], pods: list[JobPod]) -> tuple[str, ...]:
    gone = {pod.uid for pod in pods}
    return tuple(uid for uid in uids if uid not in gone)


def _is_settled(pod: JobPod, spec: JobSpec, pods: Tally) -> bool:
    """Nothing more is to be learnt from the pod. A failed one is kept while its index waits for a successor."""
    if pod.phase == "Succeeded":
        return True
    if not is_failed(pod, spec):
        return False
    return pod.index is None or pods.predecessors.get(pod.index) is not pod


def _is_counted_failed(pod: JobPod, spec: JobSpec, verdict: Verdict | None) -> bool:
    """A failed Job fails the pods that it ends, too; those that a met success policy ends have no outcome."""
    ended_by_failure = verdict is not None and verdict.final == "Failed"
    if not (is_failed(pod, spec) or ended_by_failure):
        return False
    return rule_on(spec.failure_policy, pod.raw).counted
