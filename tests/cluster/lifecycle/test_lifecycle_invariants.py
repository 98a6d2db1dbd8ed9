"""Whatever is reported, in whatever order: what must hold of every pod's life."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from jobset.cluster.model.pod_lifecycle.machine import next_wakeup, step
from jobset.cluster.model.pod_lifecycle.spec import read_pod
from jobset.cluster.model.pod_lifecycle.state import (
    ALIVE,
    BackOff,
    Begin,
    ConfirmDeletion,
    DeletionRequested,
    Exited,
    HookDone,
    Notice,
    Phase,
    Probed,
    Removed,
    SandboxFailed,
    SandboxReady,
    SignalContainer,
    Stage,
    StartContainer,
    Started,
    StartFailed,
    Tick,
    initial,
)
from jobset.cluster.model.pod_lifecycle.status import Place, build_status

START = datetime(2026, 1, 1, tzinfo=UTC)
FINAL = ("Succeeded", "Failed")
NAMES = ("setup", "side", "main", "other")
PROBE = {"exec": {"command": ["x"]}, "periodSeconds": 1, "failureThreshold": 2}
RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}


@st.composite
def pods(draw):
    def container(name, **fields):
        probes = draw(st.sets(st.sampled_from(["startupProbe", "livenessProbe", "readinessProbe"])))
        lifecycle = dict.fromkeys(draw(st.sets(st.sampled_from(["preStop", "postStart"]))), PROBE)
        return {"name": name, "image": "i", **dict.fromkeys(sorted(probes), PROBE), "lifecycle": lifecycle, **fields}

    rules = {"restartPolicy": "Never", "restartPolicyRules": [RULE]} if draw(st.booleans()) else {}
    init = [{"name": "setup", "image": "i"}, container("side", restartPolicy="Always")]
    spec = {
        "initContainers": init if draw(st.booleans()) else [],
        "containers": [container("main", **rules), container("other")],
        "restartPolicy": draw(st.sampled_from(["Always", "OnFailure", "Never"])),
        "terminationGracePeriodSeconds": draw(st.sampled_from([0, 5])),
    }
    if draw(st.booleans()):
        spec["activeDeadlineSeconds"] = 50
    return {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec}


kinds = st.sampled_from(
    [
        "sandbox",
        "sandbox-failed",
        "started",
        "unstartable",
        "misconfigured",
        "exited",
        "hook",
        "probe",
        "delete",
        "tick",
    ]
)
steps = st.lists(
    st.tuples(
        kinds,
        st.sampled_from(NAMES),
        st.integers(0, 2),
        st.sampled_from([0, 1, 88, 137]),
        st.booleans(),
        st.sampled_from(["startup", "liveness", "readiness"]),
        st.sampled_from([0.0, 0.5, 3.0, 20.0]),
    ),
    max_size=60,
)


def event_of(kind, container, attempt, code, flag, probe, now):
    match kind:
        case "sandbox":
            return SandboxReady("10.0.0.1")
        case "sandbox-failed":
            return SandboxFailed("FailedMount", "no")
        case "started":
            return Started(container, attempt)
        case "unstartable":
            return StartFailed(container, attempt, "StartError", "no", 127)
        case "misconfigured":
            return StartFailed(container, attempt, "CreateContainerConfigError", "no")
        case "exited":
            return Exited(container, attempt, code, "Error" if code else "Completed", now, now)
        case "hook":
            return HookDone(container, attempt, "preStop" if flag else "postStart", code == 0)
        case "probe":
            return Probed(container, attempt, probe, flag)
        case "delete":
            return DeletionRequested(5) if flag else Removed() if code == 137 else DeletionRequested(0)
    return Tick()


def check_step(before, event, after, instructions):
    for name, container in after.containers.items():
        assert container.starts >= before.containers[name].starts, "restart counts never fall"
        if container.phase in ALIVE:
            assert after.stage is not Stage.DONE, "nothing runs in a pod that is over"
        assert not (container.ready and not container.started), "ready means started"
    started = [i.container for i in instructions if isinstance(i, StartContainer)]
    for name in started:
        ended = isinstance(event, Exited | StartFailed)
        assert ended or before.containers[name].phase not in ALIVE, "what runs is not started"
        assert after.containers[name].phase is Phase.STARTING
    assert len(started) == len(set(started)), "nothing is started twice"
    if before.stage is Stage.ENDING:
        assert not started, "a pod that ends starts nothing"
    if before.stage is Stage.DONE:
        assert after.stage is Stage.DONE
        assert all(isinstance(i, ConfirmDeletion) for i in instructions), "a pod that is over only confirms"
    signals = [i for i in instructions if isinstance(i, SignalContainer)]
    assert all(after.containers[i.container].phase is Phase.STOPPING for i in signals)


@settings(max_examples=300, deadline=None)
@given(pods(), steps)
def test_any_sequence_of_reports_keeps_the_invariants(pod, reports):
    spec = read_pod(pod)
    known = {container.name for container in spec.containers}
    now = START
    state, _ = step(initial(spec, BackOff()), Begin(), now)
    confirmed = 0
    phases = []
    for kind, name, attempt, code, flag, probe, delay_s in reports:
        now += timedelta(seconds=delay_s)
        event = event_of(kind, name if name in known else "main", attempt, code, flag, probe, now)
        before = state
        state, instructions = step(state, event, now)
        check_step(before, event, state, instructions)
        confirmed += sum(isinstance(i, ConfirmDeletion) for i in instructions)
        again, more = step(state, Tick(), now)
        assert again == state, "a tick without time passing changes nothing"
        assert [i for i in more if not isinstance(i, Notice)] == []
        wakeup = next_wakeup(state, now)
        assert wakeup is None or wakeup > now
        pod = {**pod, "status": build_status(state, pod, Place("192.0.2.1"), now)}
        phases.append(pod["status"]["phase"])
        assert all("reason" not in c or c["reason"] for c in pod["status"]["conditions"])
    assert confirmed <= 1, "deletion is confirmed once"
    final = [phase for phase in phases if phase in FINAL]
    assert not final or (phases[-len(final) :] == final and len(set(final)) == 1), "a phase never leaves its end"


@settings(max_examples=100, deadline=None)
@given(pods(), st.lists(st.sampled_from([0, 1, 88]), max_size=12))
def test_a_deleted_pod_always_comes_to_its_end(pod, codes):
    """With every instruction answered, deletion leads to DONE within grace and the sidecars' last seconds."""
    spec = read_pod(pod)
    now = START
    state, instructions = step(initial(spec, BackOff()), Begin(), now)
    queue = list(instructions)
    codes = iter([*codes, *[None] * 50])

    def run(event):
        nonlocal state
        state, more = step(state, event, now)
        queue.extend(more)

    for _ in range(60):
        while queue:
            instruction = queue.pop(0)
            match type(instruction).__name__:
                case "CreateSandbox":
                    run(SandboxReady("10.0.0.1"))
                case "StartContainer":
                    run(Started(instruction.container, instruction.attempt))
                    if (code := next(codes)) is not None:
                        run(Exited(instruction.container, instruction.attempt, code, "Error", now, now))
                case "SignalContainer" if instruction.signal == 9:
                    run(Exited(instruction.container, instruction.attempt, 137, "Error", now, now))
        if state.stage is Stage.DONE:
            break
        if not state.delete:
            run(DeletionRequested(5))
        elif (wakeup := next_wakeup(state, now)) is not None:
            now = wakeup
            run(Tick())
    assert state.stage is Stage.DONE
    assert now - START <= timedelta(seconds=15)
