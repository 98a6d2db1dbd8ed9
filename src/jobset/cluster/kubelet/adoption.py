"""Takes over a pod from an earlier kubelet: puts what the runtime found of it into the words of the state machine."""

from __future__ import annotations

from datetime import datetime

from jobset.cluster.kubelet.execution import exited
from jobset.cluster.kubelet.pods import PodRun
from jobset.cluster.model.pod_lifecycle.adopting import Facts, Run, adopt
from jobset.cluster.model.pod_lifecycle.state import End
from jobset.cluster.runtime.port import Exit, FoundSandbox


def take_over(run: PodRun, found: FoundSandbox | None, now: datetime, grace_left_s: float | None) -> None:
    """Go on where the earlier kubelet stopped. `found` None: nothing of the pod is there."""
    facts = None if found is None else Facts(found.sandbox.ip, _runs(run, found))
    status = run.pod.get("status") or {}
    run.state, instructions = adopt(run.state.spec, run.state.back_off, status, facts, now, grace_left_s)
    run.pending.extend(instructions)


def _runs(run: PodRun, found: FoundSandbox) -> dict[str, list[Run]]:
    runs: dict[str, list[Run]] = {}
    for entry in found.runs:
        _, name, attempt = entry.container
        end = None if entry.end is None else _end(run, entry.end)
        runs.setdefault(name, []).append(Run(attempt, entry.started_at, entry.signal, end))
    return runs


def _end(run: PodRun, end: Exit) -> End:
    heard = exited(run, end)
    return End(
        heard.exit_code,
        heard.reason,
        heard.started_at,
        heard.finished_at,
        heard.attempt,
        heard.signal,
        heard.message,
    )
