"""Whatever happens to pods, and wherever the controller dies: nothing is counted twice, lost or doubled."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.job.builders import job
from cluster.job.world import World
from jobset.api.meta import Object
from jobset.cluster.model.job.conditions import is_finished

EVENTS = st.one_of(
    st.tuples(st.sampled_from(["run", "succeed", "fail", "ignored", "delete"]), st.integers(0, 5)),
    st.tuples(st.just("wait"), st.integers(1, 40)),
    st.tuples(st.sampled_from(["parallelism", "resize"]), st.integers(1, 4)),
    st.tuples(st.just("suspend"), st.booleans()),
)
LOOKS = st.sampled_from([None, None, None, 0, 1, 2, 3, 4])
"""After how many writes the pass that follows an event is cut short; None lets it end."""
STEPS = st.lists(st.tuples(EVENTS, LOOKS), min_size=4, max_size=25)
POLICY = {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [9]}}]}


@st.composite
def jobs(draw: st.DrawFn) -> Object:
    spec: dict[str, Any] = {
        "parallelism": draw(st.integers(1, 4)),
        "backoffLimit": draw(st.sampled_from([0, 0, 1, 6])),
        "podReplacementPolicy": draw(st.sampled_from(["Failed", "TerminatingOrFailed"])),
    }
    completions = draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["queue", "counted", "indexed", "per-index"]))
    if kind != "queue":
        spec["completions"] = completions
    if kind in ("indexed", "per-index"):
        spec["completionMode"] = "Indexed"
    if kind == "per-index":
        spec |= {"backoffLimitPerIndex": draw(st.integers(0, 2)), "backoffLimit": 2**31 - 1}
    if draw(st.booleans()):
        spec |= {"podFailurePolicy": POLICY, "podReplacementPolicy": "Failed"}
    return job(**spec)


def take(world: World, step: tuple[tuple[str, int], int | None]) -> None:
    (word, value), writes = step
    names = list(world.pods)
    name = names[value % len(names)] if names else ""
    match word:
        case "wait":
            world.elapsed_s += value
        case "parallelism":
            world.change_spec(parallelism=value)
        case "resize" if world.job["spec"].get("completionMode") == "Indexed":
            world.change_spec(parallelism=value, completions=value)
        case "suspend":
            world.change_spec(suspend=value)
        case "run":
            for pending in names:
                world.run(pending)
        case "succeed" if name:
            world.end(name, 0)
        case "fail" if name:
            world.end(name, 1)
        case "ignored" if name:
            world.end(name, 9)
        case "delete" if name:
            world.delete(name)
    world.check_pods()
    world.look(writes)


@settings(max_examples=300, deadline=None)
@given(jobs(), STEPS)
def test_nothing_is_lost_or_counted_twice(owner: Object, steps: list[tuple[tuple[str, int], int | None]]) -> None:
    world = World(owner)
    world.look()
    for step in steps:
        take(world, step)
    world.settle()
    world.check_settled()


@settings(max_examples=100, deadline=None)
@given(jobs(), STEPS)
def test_a_job_whose_pods_succeed_from_now_on_ends(
    owner: Object, steps: list[tuple[tuple[str, int], int | None]]
) -> None:
    world = World(owner)
    world.look()
    for step in steps:
        take(world, step)
    world.change_spec(suspend=False, parallelism=world.job["spec"].get("completions", 2))
    for _ in range(8):
        world.settle()
        world.elapsed_s += 60
        for name in list(world.pods):
            world.end(name, 0)
    world.settle()
    world.check_settled()
    assert is_finished(world.job)
