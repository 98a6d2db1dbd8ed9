"""What people see: board rows as tables, the live picture at fixed sizes, plain lines, the summary. No processes."""

import asyncio
import io
from typing import Any

import pytest
from rich.console import Console

from jobset.api import labels
from jobset.cli.board import (
    GroupRow,
    JobRow,
    PodRow,
    SetRow,
    counts,
    job_row,
    jobset_row,
    jobset_state,
    lone_row,
    pod_notes,
    pod_row,
)
from jobset.cli.clock import clock
from jobset.cli.interruption import Interruption, Output
from jobset.cli.live import LiveView
from jobset.cli.plain import PlainView
from jobset.cli.summary import summary_lines


def pod(name: str = "p", phase: str = "Pending", **changes: Any) -> dict[str, Any]:
    container = {"name": "main", "restartCount": changes.pop("restarts", 0), "state": changes.pop("state", {})}
    ready = "True" if changes.pop("ready", False) else "False"
    conditions = [{"type": "Ready", "status": ready}, *changes.pop("conditions", ())]
    metadata: dict[str, Any] = {"name": name, "labels": changes.pop("labels", {})}
    if changes.pop("deleted", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = {"phase": phase, "containerStatuses": [container], "conditions": conditions, **changes.pop("status", {})}
    return {"metadata": metadata, "spec": changes, "status": status}


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
CRASHING = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
NO_CONFIG = {"waiting": {"reason": "CreateContainerConfigError", "message": "configmap not found"}}


@pytest.mark.parametrize(
    ("given", "state", "note"),
    [
        (pod(), "pending", ""),
        (pod(conditions=[UNSCHEDULABLE]), "pending", "0/1 nodes are available"),
        (pod(schedulingGates=[{"name": "gate"}]), "gated", "waits for its scheduling gate"),
        (pod(nodeName="n"), "starting", ""),
        (pod(nodeName="n", state=NO_CONFIG), "backing off", "configmap not found"),
        (pod(phase="Running", nodeName="n"), "running", ""),
        (pod(phase="Running", nodeName="n", ready=True), "ready", ""),
        (pod(phase="Running", nodeName="n", state=CRASHING), "backing off", "back-off 10s"),
        (pod(phase="Running", nodeName="n", ready=True, deleted=True), "terminating", ""),
        (pod(phase="Succeeded", state={"terminated": {"exitCode": 0}}), "succeeded", ""),
        (pod(phase="Failed", state={"terminated": {"exitCode": 3}}), "failed", "exit code 3"),
        (pod(phase="Failed", status={"reason": "DeadlineExceeded"}), "failed", "DeadlineExceeded"),
    ],
)
def test_states_of_a_pod(given: Any, state: str, note: str) -> None:
    row = pod_row(given)
    assert (row.state, row.note) == (state, note)
    assert row.waits == (state in ("pending", "gated", "starting", "backing off"))


def job(name: str = "js-w-0", group: str = "w", *, condition: str = "", **fields: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": {labels.REPLICATED_JOB_NAME: group}}
    if fields.pop("deleted", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    conditions = [{"type": condition, "status": "True"}] if condition else []
    counts = {name: fields.pop(name) for name in ("active", "ready", "succeeded") if name in fields}
    return {"metadata": metadata, "spec": {"parallelism": 2, **fields}, "status": {"conditions": conditions, **counts}}


@pytest.mark.parametrize(
    ("given", "state"),
    [
        (job(), "waiting"),
        (job(active=2), "starting"),
        (job(active=2, ready=1), "starting"),
        (job(active=2, ready=2), "ready"),
        (job(active=1, ready=1, succeeded=1), "ready"),
        (job(completions=1, ready=1), "ready"),
        (job(suspend=True), "suspended"),
        (job(deleted=True, active=2), "ending"),
        (job(condition="FailureTarget"), "failed"),
        (job(condition="Failed"), "failed"),
        (job(condition="Complete"), "succeeded"),
    ],
)
def test_states_of_a_job(given: Any, state: str) -> None:
    assert job_row(given, ()).state == state


def jobset(**status: Any) -> dict[str, Any]:
    spec = {
        "suspend": status.pop("suspend", False),
        "replicatedJobs": [
            {"name": "driver", "replicas": 1},
            {"name": "w", "replicas": 2, "dependsOn": [{"name": "driver", "status": "Ready"}]},
        ],
    }
    return {"metadata": {"name": "js"}, "spec": spec, "status": status}


def entries(*counts: tuple[str, int, int]) -> list[dict[str, Any]]:
    return [{"name": name, "ready": ready, "succeeded": succeeded} for name, ready, succeeded in counts]


@pytest.mark.parametrize(
    ("given", "state"),
    [
        (jobset(), "Starting"),
        (jobset(replicatedJobsStatus=entries(("driver", 1, 0), ("w", 1, 0))), "Starting"),
        (jobset(replicatedJobsStatus=entries(("driver", 0, 1), ("w", 2, 0))), "Running"),
        (jobset(conditions=[{"type": "RestartingJobSet", "status": "True"}]), "Restarting"),
        (jobset(suspend=True), "Suspended"),
        (jobset(terminalState="Completed"), "Completed"),
        (jobset(terminalState="Failed"), "Failed"),
    ],
)
def test_states_of_a_jobset(given: Any, state: str) -> None:
    assert jobset_state(given) == state


def test_a_jobset_with_its_jobs_and_pods_in_natural_order() -> None:
    jobs = [job(f"js-w-{number}") for number in (10, 2)]
    pods = [pod(f"js-w-2-{number}", labels={labels.BATCH_JOB_NAME: "js-w-2"}) for number in (11, 1)]
    row = jobset_row(jobset(restarts=1, replicatedJobsStatus=entries(("w", 1, 1))), jobs, pods)
    driver, workers = row.groups
    assert row.restarts == 1
    assert (driver.wanted, driver.note) == (1, "")
    assert (workers.ready, workers.succeeded, workers.note) == (1, 1, "")
    assert [each.name for each in workers.jobs] == ["js-w-2", "js-w-10"]
    assert [each.name for each in workers.jobs[0].pods] == ["js-w-2-1", "js-w-2-11"]


def test_a_replicated_job_without_jobs_says_what_it_waits_for() -> None:
    assert jobset_row(jobset(), (), ()).groups[1].note == "waits for driver ready"


def test_a_job_and_a_pod_alone() -> None:
    assert lone_row("Job", job(condition="Complete"), ()).state == "Completed"
    row = lone_row("Pod", pod(phase="Failed", state={"terminated": {"exitCode": 3}}), ())
    assert (row.state, row.groups[0].failed) == ("Failed", 1)


def test_reasons_of_pods_are_said_once() -> None:
    pods = (
        PodRow("a", "pending", 0, "", "full"),
        PodRow("b", "pending", 0, "", "full"),
        PodRow("c", "failed", 0, "", "x"),
    )
    row = SetRow("JobSet", "js", "Starting", 0, (GroupRow("w", 1, 0, 0, 0, (JobRow("j", "starting", pods),)),))
    assert pod_notes(row) == ["Pod a and 1 more: full"]


# ---------------------------------------------------------------- live


def group(jobs: int, pods: int = 2, name: str = "workers") -> GroupRow:
    calm = PodRow("p", "ready", 0, "n")
    rows = [JobRow(f"js-{name}-{number}", "ready", (calm,) * pods) for number in range(jobs)]
    if jobs > 3:
        rows[-1] = JobRow(f"js-{name}-{jobs - 1}", "starting", (PodRow("p", "backing off", 3, "n", "no such file"),))
    return GroupRow(name, jobs, jobs - 1, 1, 0, tuple(rows))


def picture(*groups: GroupRow, width: int = 100, height: int = 24, lines: int = 3, colour: bool = False) -> list[str]:
    out = io.StringIO()
    system = "truecolor" if colour else None
    console = Console(file=out, width=width, height=height, force_terminal=colour, color_system=system)
    view = LiveView(console, lambda: [SetRow("JobSet", "js", "Running", 1, groups)], lambda: 12.34)
    for number in range(lines):
        view.log(f"w-{number}", f"line {number} " + "x" * 200)
    view.notice("a note")
    console.print(view.picture())
    return out.getvalue().splitlines()


def test_the_live_picture_of_a_small_jobset() -> None:
    shown = picture(group(1, name="driver"), group(2))
    assert [line.rstrip() for line in shown[:5]] == [
        "JobSet js  Running  12.3 s  attempt 2",
        "  driver          ████████████████████████ 1/1  1 succeeded  ●●",
        "  workers         ████████████████████████ 2/2  1 succeeded",
        "    js-workers-0                 ready      ●●",
        "    js-workers-1                 ready      ●●",
    ]
    assert shown[5].strip() == ""
    assert shown[6].startswith("w-0 line 0 xxx")
    assert shown[6].rstrip().endswith("…")
    assert shown[-1].rstrip() == "· a note"


def test_many_jobs_fit_the_screen_those_in_trouble_first() -> None:
    shown = picture(group(500), height=24, lines=100)
    assert len(shown) <= 24
    text = "\n".join(shown)
    assert "js-workers-499               starting   ↻3  no such file" in text
    assert "more Jobs" in text
    assert "· a note" in text


@pytest.mark.parametrize(("width", "height"), [(40, 12), (20, 5), (200, 100)])
def test_any_terminal(width: int, height: int) -> None:
    shown = picture(group(30), width=width, height=height, lines=50)
    assert all(len(line) <= width for line in shown)
    assert any("a note" in line for line in shown)


def test_colours_only_where_there_are_some() -> None:
    assert not any("\x1b" in line for line in picture(group(2)))
    assert any("\x1b[" in line for line in picture(group(2), colour=True))


def test_markup_in_output_is_output() -> None:
    out = io.StringIO()
    view = LiveView(Console(file=out, width=80, height=20), lambda: [], lambda: 0.0)
    view.log("w-0", "[bold]loss[/bold] = [1, 2]")
    view._console.print(view.picture())
    assert "[bold]loss[/bold] = [1, 2]" in out.getvalue()


async def test_rows_are_asked_for_only_after_a_change() -> None:
    asked: list[int] = []

    def rows() -> list[SetRow]:
        asked.append(1)
        return []

    view = LiveView(Console(file=io.StringIO(), width=80, height=20), rows, lambda: 0.0)
    with view:
        async with asyncio.TaskGroup() as tasks:
            redraw = tasks.create_task(view.redraw())
            await asyncio.sleep(10)
            assert len(asked) == 1
            view.changed()
            await asyncio.sleep(10)
            assert len(asked) == 2
            redraw.cancel()


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0.0 s"), (59.94, "59.9 s"), (65, "1:05"), (3723, "1:02:03"), (59.99, "1:00")]
)
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


# ---------------------------------------------------------------- plain


async def test_plain_lines_come_once_and_together() -> None:
    out = io.StringIO()
    row = SetRow("JobSet", "js", "Starting", 0, (GroupRow("w", 2, 0, 0, 0, (), "waits for driver ready"),))
    rows = [row]
    asked: list[int] = []

    def ask() -> list[SetRow]:
        asked.append(1)
        return rows

    view = PlainView(Output(out, Interruption()), ask, lambda: 0.0)
    with view:
        async with asyncio.TaskGroup() as tasks:
            redraw = tasks.create_task(view.redraw())
            for _ in range(100):
                view.changed()
            await asyncio.sleep(1)
            assert len(asked) == 1
            view.log("w-0", "hello")
            view.changed()
            await asyncio.sleep(1)
            redraw.cancel()
        rows[0] = SetRow("JobSet", "js", "Completed", 0, ())
        view.changed()
    assert out.getvalue().splitlines() == [
        "[   0.00 s] JobSet js: Starting",
        "[   0.00 s] js/w: 0 ready of 2 (waits for driver ready)",
        "w-0 | hello",
        "[   0.00 s] JobSet js: Completed",
    ]


@pytest.mark.parametrize(
    ("ready", "succeeded", "failed", "text"),
    [
        (0, 0, 0, "0 ready of 4"),
        (2, 1, 0, "2 ready, 1 succeeded of 4"),
        (0, 4, 0, "4 succeeded of 4"),
        (1, 0, 1, "1 ready, 1 failed of 4"),
    ],
)
def test_counts(ready: int, succeeded: int, failed: int, text: str) -> None:
    assert counts(GroupRow("w", 4, ready, succeeded, failed, ())) == text


def test_an_output_that_is_gone_interrupts_once() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    interruption = Interruption()
    out = Output(Gone(), interruption)
    for _ in range(3):
        out.write("line")
        out.flush()
    assert (out.closed, interruption.count) == (True, 1)


# ---------------------------------------------------------------- summary

FAILURE = {
    "pod": "js-w-1-0-abcde", "container": "main", "exitCode": 9, "reason": "Error", "finishedAt": "",
    "lastLines": ["one", "two"],
}  # fmt: skip


def attempt(number: int, outcome: str, *failures: Any, ready: float | None = None) -> dict[str, Any]:
    return {
        "number": number, "outcome": outcome, "readyAfterSeconds": ready, "durationSeconds": 5.0,
        "failures": list(failures),
    }  # fmt: skip


def summary(result: str, *attempts: Any, **changes: Any) -> dict[str, Any]:
    return {
        "kind": "JobSet", "name": "js", "result": result, "message": "said", "durationSeconds": 65.0,
        "restarts": len(attempts) - 1, "waitsFor": [], "attempts": attempts, "jobRestarts": [], **changes,
    }  # fmt: skip


def test_the_summary_of_a_restart() -> None:
    killed = {**FAILURE, "reason": "OOMKilled", "exitCode": 137}
    first = attempt(0, "Restarted", FAILURE, killed, ready=1.5)
    assert summary_lines([summary("Completed", first, attempt(1, "Completed"))]) == [
        "JobSet js: Completed after 1:05, 1 restart",
        "  attempt 1: restarted after 5.0 s, all ready after 1.5 s",
        "    js-w-1-0-abcde (main): exit code 9",
        "      > one",
        "      > two",
        "    then 1 other container failed",
        "  attempt 2: completed after 5.0 s, never all ready",
    ]


def test_the_summary_of_a_failure_and_of_a_job_that_restarted_alone() -> None:
    killed = {**FAILURE, "reason": "OOMKilled", "exitCode": 137, "lastLines": []}
    restart = {"job": "js-w-1", "attempt": 1, "cause": FAILURE}
    assert summary_lines([summary("Failed", attempt(0, "Failed", killed), jobRestarts=[restart])]) == [
        "JobSet js: Failed after 1:05, 0 restarts",
        "  said",
        "    js-w-1-0-abcde (main): OOMKilled, exit code 137",
        "  Job js-w-1 restarted alone (attempt 2)",
        "    js-w-1-0-abcde (main): exit code 9",
        "      > one",
        "      > two",
    ]


def test_the_summary_of_what_is_not_finished() -> None:
    waits = [f"reason {number}" for number in range(12)]
    lines = summary_lines([summary("Running", attempt(0, "Running"), message="", waitsFor=waits)])
    assert lines[0] == "JobSet js: not finished after 1:05, 0 restarts"
    assert lines[1:11] == [f"  reason {number}" for number in range(10)]
    assert lines[11] == "  … 2 more reasons (--output json has them all)"
