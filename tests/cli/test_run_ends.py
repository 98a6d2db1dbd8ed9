"""How `jobset run` ends: exit codes, signals, and that nothing is left, however it ended."""

import os
import signal

import pytest
from command import ENDLESS, Place, job_template, jobset, new_mark, pod, wait_until

NETWORKS = ("host", "pod")


@pytest.fixture
def mark() -> str:
    return new_mark()


def test_completed_is_0_and_leaves_nothing(place: Place, mark: str) -> None:
    done = place.run("run", place.write(jobset(f"echo hello {mark}", pods=2)))
    assert done.returncode == 0, done.stderr
    assert "JobSet js: Completed after" in done.stdout
    assert place.left_behind(mark) == []


def test_failed_is_1_and_says_who_and_with_which_last_words(place: Place) -> None:
    done = place.run("run", place.write(jobset("echo one; echo the disk is gone >&2; exit 7")))
    assert done.returncode == 1
    summary = done.stdout[done.stdout.index("JobSet js: Failed") :]
    assert "js-w-0-0-" in summary
    assert "exit code 7" in summary
    assert "> the disk is gone" in summary


@pytest.mark.parametrize("kind", ["Job", "Pod"])
def test_a_job_or_a_pod_alone_runs_too(place: Place, kind: str) -> None:
    script = "echo last words; exit 3"
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "lone"}, **job_template(script)}
    done = place.run("run", place.write(job if kind == "Job" else pod(script)))
    assert done.returncode == 1
    assert f"{kind} lone: Failed" in done.stdout
    assert "exit code 3" in done.stdout
    assert "> last words" in done.stdout


def test_timeout_is_124_and_says_how_far_it_came(place: Place, mark: str) -> None:
    done = place.run("run", place.write(jobset(ENDLESS.format(mark=mark))), "--timeout", "1.5s")
    assert done.returncode == 124
    assert "not finished after 1.5 s: terminating the pods" in done.stdout
    assert "JobSet js: not finished" in done.stdout
    assert place.left_behind(mark) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_pods_gracefully(place: Place, mark: str, number: int) -> None:
    script = f"trap 'echo saving; sleep 0.2; echo saved; exit 0' TERM; echo up; sleep {mark} & wait"
    with place.start("run", place.write(jobset(script, pods=2))) as command:
        command.wait_said("| up", 2)
        command.send(number)
        assert command.end() == 130
    assert command.output.count("| saved") == 2
    assert "terminating the pods" in command.output
    assert "Traceback" not in command.errors
    assert place.left_behind(mark) == []


def test_a_second_signal_kills(place: Place, mark: str) -> None:
    deaf = f"trap '' TERM; echo up; sleep {mark} & wait; sleep {mark}"
    manifest = place.write(jobset(deaf, pods=2, terminationGracePeriodSeconds=600))
    with place.start("run", manifest) as command:
        command.wait_said("| up", 2)
        command.send(signal.SIGINT)
        command.wait_said("again to kill")
        command.send(signal.SIGINT)
        assert command.end() == 130
    assert place.left_behind(mark) == []


def test_pods_that_do_not_heed_are_killed_after_their_grace_period(place: Place, mark: str) -> None:
    deaf = f"trap '' TERM; echo up; sleep {mark} & wait; sleep {mark}"
    with place.start("run", place.write(jobset(deaf, terminationGracePeriodSeconds=1))) as command:
        command.wait_said("| up")
        command.send(signal.SIGINT)
        assert command.end() == 130
    assert place.left_behind(mark) == []


@pytest.mark.parametrize("network", NETWORKS)
def test_kill_9_leaves_nothing(place: Place, mark: str, network: str) -> None:
    _skip_without(place, network)
    interfaces = os.listdir("/sys/class/net")
    manifest = place.write(jobset(ENDLESS.format(mark=mark), pods=3))
    with place.start("run", manifest, "--network", network) as command:
        command.wait_said("| up", 3)
        assert place.left_behind(mark) != []
        command.send(signal.SIGKILL)
        assert command.end() == -signal.SIGKILL
        wait_until(lambda: not place.left_behind(mark), lambda: f"left: {place.left_behind(mark)}")
    assert os.listdir("/sys/class/net") == interfaces


@pytest.mark.parametrize("network", NETWORKS)
def test_nothing_is_left_of_pods_whose_children_went_their_own_way(place: Place, mark: str, network: str) -> None:
    _skip_without(place, network)
    script = f"setsid sh -c 'trap \"\" TERM HUP; sleep {mark}' & echo done"
    done = place.run("run", place.write(jobset(script)), "--network", network)
    assert done.returncode == 0
    assert place.left_behind(mark) == []


def test_a_signal_while_it_starts_ends_it_too(place: Place, mark: str) -> None:
    with place.start("run", place.write(jobset(ENDLESS.format(mark=mark)))) as command:
        wait_until(lambda: any(place.temporary.iterdir()))
        command.send(signal.SIGINT)
        assert command.end() == 130
    assert "Traceback" not in command.errors
    assert place.left_behind(mark) == []


def test_output_that_nobody_reads_ends_the_run_without_a_traceback(place: Place, mark: str) -> None:
    script = f"trap 'exit 0' TERM; while :; do echo again; sleep 0.05; done; sleep {mark}"
    manifest = place.write(jobset(script))
    command = '"$@" | head -1; echo ${PIPESTATUS[0]}'
    done = place.run("run", manifest, before=("bash", "-c", command, "bash"))
    first, code = done.stdout.splitlines()
    assert first.startswith("[")
    assert code == "141"
    assert done.stderr == ""
    assert place.left_behind(mark) == []


def _skip_without(place: Place, network: str) -> None:
    if network == "host":
        return
    probe = place.run("run", place.write(pod("true"), name="probe.yaml"), "--network", network)
    if probe.returncode != 0:
        pytest.skip(f"no {network} network here: {probe.stderr}")
