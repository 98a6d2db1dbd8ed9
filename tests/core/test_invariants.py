"""Any sequence of outcomes, restarts, suspensions and deletions keeps the invariants."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from played import World, failure_policy, jobset, rj

from jobset.sim.invariants import Snapshot, check_invariants

ACTIONS = (
    "FailJobSet",
    "RestartJobSet",
    "RestartJobSetAndIgnoreMaxRestarts",
    "RestartJob",
    "RestartJobAndIgnoreMaxRestarts",
)


@st.composite
def jobsets(draw: st.DrawFn) -> dict[str, Any]:
    names = ["a", "b", "c"][: draw(st.integers(1, 3))]
    in_order = draw(st.booleans())
    replicated_jobs = []
    for number, name in enumerate(names):
        fields = {}
        if number and not in_order and draw(st.booleans()):
            fields["dependsOn"] = [{"name": names[number - 1], "status": draw(st.sampled_from(["Ready", "Complete"]))}]
        replicated_jobs.append(rj(name, draw(st.integers(0, 3)), **fields))
    spec: dict[str, Any] = {"startupPolicy": {"startupPolicyOrder": "InOrder" if in_order else "AnyOrder"}}
    if draw(st.integers(0, 3)):
        rules = [
            {
                "name": f"r{n}",
                "action": draw(st.sampled_from(ACTIONS)),
                "targetReplicatedJobs": draw(st.lists(st.sampled_from(names), max_size=1)),
            }
            for n in range(draw(st.integers(0, 2)))
        ]
        strategy = draw(st.sampled_from(["Recreate", "BlockingRecreate"]))
        spec["failurePolicy"] = failure_policy(draw(st.integers(0, 3)), *rules, strategy=strategy)
    spec["successPolicy"] = {"operator": draw(st.sampled_from(["All", "Any"]))}
    return jobset(*replicated_jobs, **spec)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["ready", "fail", "give up", "succeed", "collect", "delete", "suspend", "resume", "pass", "crash", "crash"]
        ),
        st.integers(0, 8),
    ),
    max_size=40,
)


def happen(world: World, event: str, which: int) -> None:
    """One thing that the world does; what is impossible now does not happen."""
    if event in ("suspend", "resume"):
        world.edit(suspend=event == "suspend")
        return
    if event == "pass":
        world.one_pass()
        return
    names = sorted(world.jobs)
    if not names:
        return
    name = names[which % len(names)]
    job = world.jobs[name]
    leaving = "deletionTimestamp" in job["metadata"]
    ended = {each["type"] for each in job["status"].get("conditions", ())} & {"Failed", "Complete", "FailureTarget"}
    if event == "collect" and leaving:
        world.collect(name)
    elif event == "delete" and not leaving:
        job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    elif ended or job["spec"]["suspend"] or leaving:
        return
    elif event == "crash":  # a failure, and all that follows from it
        world.fail(name)
        world.settle(limit=200)
        world.collect()
        world.settle(limit=200)
    elif event == "ready":
        world.ready(name)
    elif event == "succeed":
        world.succeed(name)
    elif event in ("fail", "give up"):
        world.fail(name, target_only=event == "give up")


def snapshot(world: World, *, settled: bool) -> Snapshot:
    return Snapshot((copy.deepcopy(world.raw),), tuple(copy.deepcopy(list(world.jobs.values()))), settled=settled)


@settings(max_examples=300, deadline=None)
@given(jobsets(), EVENTS)
def test_any_sequence_of_events_keeps_the_invariants(raw: dict[str, Any], events: list[tuple[str, int]]) -> None:
    world = World(raw)
    world.settle()
    before = None
    for event, which in events:
        happen(world, event, which)
        now = snapshot(world, settled=False)
        assert check_invariants(before, now) == []
        before = now
    world.settle(limit=200)
    assert check_invariants(before, snapshot(world, settled=True)) == []


@settings(max_examples=100, deadline=None)
@given(jobsets(), EVENTS)
def test_whatever_happened_all_jobs_exist_once_everything_goes_well(
    raw: dict[str, Any], events: list[tuple[str, int]]
) -> None:
    """Nothing is forgotten: with nothing failing any more, an unfinished JobSet completes."""
    world = World(raw)
    world.settle()
    for event, which in events:
        happen(world, event, which)
    world.edit(suspend=False)
    for _ in range(60):
        world.settle(limit=200)
        if world.status.get("terminalState"):
            return
        world.collect()
        for name, job in sorted(world.jobs.items()):
            if not job["spec"]["suspend"]:
                happen(world, "succeed", sorted(world.jobs).index(name))
    raise AssertionError(f"neither completed nor failed:\n{world.told()}")


def live_pod(**changes: Any) -> dict[str, Any]:
    metadata = {
        "name": "p",
        "namespace": "ns",
        "labels": {"batch.kubernetes.io/job-name": "js-a-0"},
        "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
    }
    return {"metadata": {**metadata, **changes}, "status": {"phase": "Running"}}


def broken(kind: str) -> tuple[Snapshot | None, Snapshot]:
    world = World(jobset(rj("a", 2), failurePolicy=failure_policy(1)))
    world.settle()
    before = snapshot(world, settled=True)
    match kind:
        case "two live pods":
            return None, Snapshot((), pods=(live_pod(), live_pod(name="q")))
        case "counter fell":
            later = copy.deepcopy(before)
            later.jobsets[0]["status"]["restarts"] = 1
            return later, before
        case "too many restarts":
            before.jobsets[0]["status"]["restartsCountTowardsMax"] = 2
        case "job outlived":
            before.jobsets[0]["status"]["restarts"] = 1
        case "active after the end":
            before.jobsets[0]["status"] |= {
                "conditions": [{"type": "Failed", "status": "True"}],
                "terminalState": "Failed",
            }
    return None, before


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("two live pods", "2 live pods of Job js-a-0 index 0"),
        ("counter fell", "JobSet js: restarts fell from 1 to 0"),
        ("too many restarts", "JobSet js: 2 counted restarts, at most 1 are allowed"),
        ("job outlived", "JobSet js: Job js-a-0 outlived its attempt"),
        ("active after the end", "JobSet js: is finished, but Job js-a-0 is active"),
    ],
)
def test_the_invariants_can_be_broken(kind: str, words: str) -> None:
    assert check_invariants(*broken(kind))[0] == words


def test_a_terminating_pod_may_have_its_successor() -> None:
    leaving = live_pod(name="q", deletionTimestamp="2026-01-01T00:00:00Z")
    assert check_invariants(None, Snapshot((), pods=(live_pod(), leaving))) == []
