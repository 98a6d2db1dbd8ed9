"""Whether a container that ended starts again, and when. Pure.

Order of say: the container's restartPolicyRules (KEP-5307, KEP-5532), the first that matches; then its restart policy.
Back-off as the kubelet's: the first restart is immediate, the next ones wait 10 s, 20 s, 40 s ... after the end.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from jobset.cluster.model.pod_lifecycle.spec import ContainerSpec, RestartAction
from jobset.cluster.model.pod_lifecycle.state import BackOff, Container


def restart_action(spec: ContainerSpec, exit_code: int, for_probe: bool = False) -> RestartAction | None:
    """What follows the end of a container of a pod that is not ending; None: it stays as it is.

    After a kill for a failed probe (`for_probe`) the exit code does not count as success.
    """
    for rule in spec.rules:
        if rule.matches(exit_code):
            return rule.action
    if spec.restart_policy == "Always":
        return "Restart"
    if spec.restart_policy == "OnFailure" and (exit_code != 0 or for_probe):
        return "Restart"
    return None


def _is_forgotten(policy: BackOff, container: Container, at: datetime) -> bool:
    since = container.back_off_since
    return since is None or at - since > timedelta(seconds=policy.reset_after_s)


def not_before(policy: BackOff, container: Container, finished_at: datetime) -> datetime:
    """The earliest next start of a container that ended at `finished_at`."""
    if _is_forgotten(policy, container, finished_at):
        return finished_at
    return finished_at + timedelta(seconds=container.back_off_s)


def next_back_off_s(policy: BackOff, container: Container, now: datetime) -> float:
    """What the container will wait after its next end, now that it is started again."""
    if container.back_off_s == 0 or _is_forgotten(policy, container, now):
        return policy.base_s
    return min(container.back_off_s * 2, policy.max_s)


def go_duration(seconds: float) -> str:
    """Seconds as Kubernetes' messages show them: 10s, 1m20s, 5m0s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
