"""What a pod's state machine remembers, hears (events) and asks for (instructions). Data only.

All values are immutable. Times are absolute, so that the machine needs one timer only: `next_wakeup` (machine.py)
names the next moment at which a `Tick` may change something.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Literal, TypeAlias

from jobset.api.meta import Object
from jobset.cluster.model.pod_lifecycle.spec import HookKind, PodSpec, ProbeKind, Value


class Phase(Enum):
    """Where one container is. Its transitions are the table in machine.py."""

    WAITING = "waiting"
    STARTING = "starting"
    POST_START = "post-start"
    RUNNING = "running"
    STOPPING = "stopping"
    EXITED = "exited"


ALIVE = frozenset({Phase.STARTING, Phase.POST_START, Phase.RUNNING, Phase.STOPPING})
HAS_PROCESS = ALIVE - {Phase.STARTING}


class StopStep(Enum):
    """How far a stopping container is: hook, then its turn, then the signal, then the kill."""

    PRE_STOP = "pre-stop"
    TURN = "turn"
    SIGNALLED = "signalled"
    KILLED = "killed"


class Stage(Enum):
    """Where the pod as a whole is."""

    PREPARING = "preparing"
    RUNNING = "running"
    RESTARTING = "restarting"
    ENDING = "ending"
    DONE = "done"


class BackOff(Value, frozen=True):
    """How long a container waits after its end: nothing at first, then `base_s` doubling up to `max_s`.

    A run longer than `reset_after_s` since the last restart starts anew.
    """

    base_s: float = 10.0
    max_s: float = 300.0
    reset_after_s: float = 600.0


KUBERNETES_BACK_OFF = BackOff()


class End(Value, frozen=True):
    """How one run of a container ended."""

    exit_code: int
    reason: str
    started_at: datetime
    finished_at: datetime
    attempt: int
    signal: int = 0
    message: str = ""


class Stop(Value, frozen=True):
    step: StopStep
    kill_at: datetime
    for_probe: bool = False
    """A failed probe asked for it: the container starts again whatever its exit code, unless its policy is Never."""


class ProbeState(Value, frozen=True):
    kind: ProbeKind
    due: datetime | None = None
    in_flight: bool = False
    asked: int = 0
    successes: int = 0
    failures: int = 0


class Container(Value, frozen=True):
    """One container. `starts` counts its runs so far: the run going on, or the last one, is number `starts - 1`."""

    phase: Phase = Phase.WAITING
    starts: int = 0
    not_before: datetime | None = None
    waiting_reason: str = ""
    waiting_message: str = ""
    started_at: datetime | None = None
    started: bool = False
    """Its startup probe and postStart hook are over."""
    passed: bool = False
    """It was started, or ended well, once since the pod (re)started: what comes after it may start."""
    ready: bool = False
    end: End | None = None
    """The last run's end, until the next run starts."""
    last: End | None = None
    """The end of the run before."""
    back_off_s: float = 0.0
    back_off_since: datetime | None = None
    stop: Stop | None = None
    probes: tuple[ProbeState, ...] = ()

    @property
    def attempt(self) -> int:
        return max(self.starts - 1, 0)


class Ending(Value, frozen=True):
    """Until when the pod's containers are stopped. With a `reason` the pod failed, however its containers ended."""

    kill_at: datetime
    reason: str = ""
    message: str = ""


class PodState(Value, frozen=True):
    """One pod. `containers` goes by name and must not be changed in place."""

    spec: PodSpec
    back_off: BackOff
    containers: dict[str, Container]
    stage: Stage = Stage.PREPARING
    begun: datetime | None = None
    """When this node first saw the pod: status.startTime."""
    sandbox: Literal["none", "creating", "ready", "removed"] = "none"
    sandbox_retry: datetime | None = None
    sandbox_problem: tuple[str, str] = ("", "")
    """Reason and message of the last failed attempt to prepare the pod."""
    ip: str = ""
    initialized: bool = False
    """All init containers passed once. Restarting all containers does not take it back (KEP-5532)."""
    ending: Ending | None = None
    delete: bool = False
    gone: bool = False
    """The Pod object no longer exists: nothing to report, nothing to confirm."""

    @property
    def settled(self) -> bool:
        """Nothing is under way that ends by itself at once: a good moment to write the status."""
        if self.sandbox == "creating" or self.begun is None:
            return False
        return all(container.phase is not Phase.STARTING for container in self.containers.values())


def initial(spec: PodSpec, back_off: BackOff) -> PodState:
    """A pod that nothing has happened to yet."""
    return PodState(spec, back_off, {container.name: Container() for container in spec.containers})


# -- events: what the machine hears -------------------------------------------------------------------------------


class Begin(Value, frozen=True):
    """The pod is bound to this node. Comes once, first."""


class SandboxReady(Value, frozen=True):
    ip: str


class SandboxFailed(Value, frozen=True):
    """`reason` is FailedMount or FailedCreatePodSandBox. It is tried again."""

    reason: str
    message: str


class Started(Value, frozen=True):
    container: str
    attempt: int


class StartFailed(Value, frozen=True):
    """`exit_code` None: the container waits under `reason` and is tried again; else it ended with that code."""

    container: str
    attempt: int
    reason: str
    message: str
    exit_code: int | None = None


class Exited(Value, frozen=True):
    container: str
    attempt: int
    exit_code: int
    reason: str
    started_at: datetime
    finished_at: datetime
    signal: int = 0
    message: str = ""


class HookDone(Value, frozen=True):
    container: str
    attempt: int
    hook: HookKind
    ok: bool
    message: str = ""


class Probed(Value, frozen=True):
    container: str
    attempt: int
    kind: ProbeKind
    ok: bool
    message: str = ""


class DeletionRequested(Value, frozen=True):
    """The Pod has a deletionTimestamp; `grace_s` is what is left of its grace period. May come again with less."""

    grace_s: float


class Removed(Value, frozen=True):
    """The Pod object is gone without our confirmation."""


class Tick(Value, frozen=True):
    """The moment that `next_wakeup` named, or any other."""


ContainerEvent: TypeAlias = Started | StartFailed | Exited | HookDone | Probed
PodEvent: TypeAlias = Begin | SandboxReady | SandboxFailed | DeletionRequested | Removed | Tick
Event: TypeAlias = ContainerEvent | PodEvent


# -- instructions: what the machine asks for ----------------------------------------------------------------------


class CreateSandbox(Value, frozen=True):
    """Prepare volumes and address; answer SandboxReady or SandboxFailed."""


class StartContainer(Value, frozen=True):
    """Answer Started or StartFailed; later Exited."""

    container: str
    attempt: int


class RunHook(Value, frozen=True):
    """Answer HookDone."""

    container: str
    attempt: int
    hook: HookKind
    handler: Object
    timeout_s: float


class RunProbe(Value, frozen=True):
    """Answer Probed."""

    container: str
    attempt: int
    kind: ProbeKind
    handler: Object
    timeout_s: float


class SignalContainer(Value, frozen=True):
    container: str
    attempt: int
    signal: int


class RemoveSandbox(Value, frozen=True):
    """Everything ended: give back what the pod holds. Nothing is answered."""


class ConfirmDeletion(Value, frozen=True):
    """Write the final status, then delete the Pod object with grace 0."""


class Notice(Value, frozen=True):
    """Something worth an Event about the pod."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


Instruction: TypeAlias = (
    CreateSandbox | StartContainer | RunHook | RunProbe | SignalContainer | RemoveSandbox | ConfirmDeletion | Notice
)
