"""The part of a Pod's spec that its life depends on, read once: roles, restart policies, probes, hooks, grace.

First step of the flow: the kubelet reads a raw Pod into a `PodSpec`; the state machine sees nothing else of it.
Environment, volumes and resources are none of its business.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, Literal, TypeAlias

import msgspec

from jobset.api.meta import Object

ProbeKind: TypeAlias = Literal["startup", "liveness", "readiness"]
HookKind: TypeAlias = Literal["postStart", "preStop"]
RestartPolicy: TypeAlias = Literal["Always", "OnFailure", "Never"]
RestartAction: TypeAlias = Literal["Restart", "RestartAllContainers"]

DEFAULT_GRACE_S = 30
SIGNAL_NUMBERS = {
    "SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8,
    "SIGKILL": 9, "SIGUSR1": 10, "SIGSEGV": 11, "SIGUSR2": 12, "SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15,
    "SIGSTKFLT": 16, "SIGCHLD": 17, "SIGCONT": 18, "SIGSTOP": 19, "SIGTSTP": 20, "SIGTTIN": 21, "SIGTTOU": 22,
    "SIGURG": 23, "SIGXCPU": 24, "SIGXFSZ": 25, "SIGVTALRM": 26, "SIGPROF": 27, "SIGWINCH": 28, "SIGIO": 29,
    "SIGPWR": 30, "SIGSYS": 31, "SIGRTMIN": 34, "SIGRTMAX": 64,
}  # fmt: skip
"""The names that lifecycle.stopSignal may hold, with their numbers on Linux."""


class Value(msgspec.Struct, frozen=True, gc=False):
    """Base of the immutable values of this package."""


class Role(Enum):
    """INIT runs to its end before the next; SIDECAR starts among them and lives beside MAIN."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"


class RestartRule(Value, frozen=True):
    """One of restartPolicyRules (KEP-5307, KEP-5532)."""

    action: RestartAction
    operator: Literal["In", "NotIn"]
    values: frozenset[int]

    def matches(self, exit_code: int) -> bool:
        return (exit_code in self.values) == (self.operator == "In")


class ProbeSpec(Value, frozen=True):
    kind: ProbeKind
    handler: Object
    initial_delay_s: float
    period_s: float
    timeout_s: float
    success_threshold: int
    failure_threshold: int
    grace_s: int | None


class ContainerSpec(Value, frozen=True):
    """`restart_policy` is what holds for this container, whoever set it."""

    name: str
    role: Role
    image: str
    restart_policy: RestartPolicy
    rules: tuple[RestartRule, ...]
    probes: tuple[ProbeSpec, ...]
    post_start: Object | None
    pre_stop: Object | None
    stop_signal: int

    def probe(self, kind: ProbeKind) -> ProbeSpec | None:
        return next((probe for probe in self.probes if probe.kind == kind), None)

    @property
    def can_restart_all(self) -> bool:
        return any(rule.action == "RestartAllContainers" for rule in self.rules)


class PodSpec(Value, frozen=True):
    """`containers` holds all of them in the order they start: init containers and sidecars, then the main ones."""

    name: str
    uid: str
    containers: tuple[ContainerSpec, ...]
    grace_s: int
    active_deadline_s: int | None
    readiness_gates: tuple[str, ...]


def read_pod(pod: Object) -> PodSpec:
    """The lifecycle of a valid, defaulted Pod (defaults are applied here as well, so that tests may stay short)."""
    metadata, spec = pod["metadata"], pod["spec"]
    policy: RestartPolicy = spec.get("restartPolicy") or "Always"
    grace_s = spec.get("terminationGracePeriodSeconds")
    return PodSpec(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        containers=tuple(_containers(spec, policy)),
        grace_s=DEFAULT_GRACE_S if grace_s is None else grace_s,
        active_deadline_s=spec.get("activeDeadlineSeconds"),
        readiness_gates=tuple(gate["conditionType"] for gate in spec.get("readinessGates") or ()),
    )


def _containers(spec: Object, policy: RestartPolicy) -> Iterable[ContainerSpec]:
    for raw in spec.get("initContainers") or ():
        own = raw.get("restartPolicy")
        if own == "Always":
            yield _container(raw, Role.SIDECAR, "Always")
        else:
            yield _container(raw, Role.INIT, own or ("Never" if policy == "Never" else "OnFailure"))
    for raw in spec["containers"]:
        yield _container(raw, Role.MAIN, raw.get("restartPolicy") or policy)


def _container(raw: Object, role: Role, policy: RestartPolicy) -> ContainerSpec:
    lifecycle = raw.get("lifecycle") or {}
    signal: Any = lifecycle.get("stopSignal") or "SIGTERM"
    return ContainerSpec(
        name=raw["name"],
        role=role,
        image=raw.get("image", ""),
        restart_policy=policy,
        rules=tuple(_rule(rule) for rule in raw.get("restartPolicyRules") or ()),
        probes=tuple(_probes(raw)),
        post_start=lifecycle.get("postStart"),
        pre_stop=lifecycle.get("preStop"),
        stop_signal=SIGNAL_NUMBERS.get(signal) or _real_time_signal(signal),
    )


def _real_time_signal(name: str) -> int:
    """SIGRTMIN+3 or SIGRTMAX-2; the API server has refused every other name."""
    for base, sign in (("SIGRTMIN+", 1), ("SIGRTMAX-", -1)):
        if name.startswith(base) and name.removeprefix(base).isdigit():
            return SIGNAL_NUMBERS[base[:-1]] + sign * int(name.removeprefix(base))
    return SIGNAL_NUMBERS["SIGTERM"]


def _rule(raw: Object) -> RestartRule:
    exit_codes = raw.get("exitCodes") or {}
    return RestartRule(raw["action"], exit_codes.get("operator", "In"), frozenset(exit_codes.get("values") or ()))


def _probes(raw: Object) -> Iterable[ProbeSpec]:
    kinds: tuple[ProbeKind, ...] = ("startup", "liveness", "readiness")
    for kind in kinds:
        probe = raw.get(f"{kind}Probe")
        if probe:
            yield ProbeSpec(
                kind=kind,
                handler=probe,
                initial_delay_s=probe.get("initialDelaySeconds") or 0,
                period_s=probe.get("periodSeconds") or 10,
                timeout_s=probe.get("timeoutSeconds") or 1,
                success_threshold=probe.get("successThreshold") or 1,
                failure_threshold=probe.get("failureThreshold") or 3,
                grace_s=probe.get("terminationGracePeriodSeconds"),
            )
