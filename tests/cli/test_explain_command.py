"""`jobset explain`, the help texts and shell completion, through the real command."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from command import Place, jobset

COMMANDS = ("run", "validate", "explain", "completion")


def two_groups() -> dict[str, object]:
    workload = jobset("true", replicas=2, pods=3)
    (workers,) = workload["spec"]["replicatedJobs"]
    driver = {**jobset("true")["spec"]["replicatedJobs"][0], "name": "driver"}
    workload["spec"]["replicatedJobs"] = [driver, {**workers, "dependsOn": [{"name": "driver", "status": "Ready"}]}]
    return workload


def test_what_would_be_created_and_why(place: Place) -> None:
    done = place.run("explain", place.write(two_groups()))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "JobSet js would create:"
    told = {" ".join(line.split()): lines[number + 1].strip() for number, line in enumerate(lines[:-1])}
    assert "Service js" in told
    assert "Job js-driver-0 1 pod at once, js-driver-0-0.js" in told
    workers = next(why for what, why in told.items() if what == "Job js-w-1 3 pods at once, js-w-1-0.js … -2.js")
    assert "once driver is ready (dependsOn)" in workers


def test_many_jobs_are_counted_in_text_only(place: Place) -> None:
    manifest = place.write(jobset("true", replicas=20))
    assert "… 12 more Jobs of w (--output yaml shows all)" in place.run("explain", manifest).stdout
    shown = json.loads(place.run("explain", manifest, "--output", "json").stdout)
    assert sum(each["object"]["kind"] == "Job" for each in shown) == 20


def test_json_and_yaml_hold_the_same_complete_objects(place: Place) -> None:
    manifest = place.write(two_groups())
    shown = json.loads(place.run("explain", manifest, "--output", "json", "--namespace", "team").stdout)
    assert all(each.keys() == {"reason", "message", "object"} for each in shown)
    assert {each["object"]["kind"] for each in shown} == {"Service", "Job"}
    assert {each["object"]["metadata"]["namespace"] for each in shown} == {"team"}
    text = place.run("explain", manifest, "--output", "yaml", "--namespace", "team").stdout
    assert list(yaml.safe_load_all(text)) == [each["object"] for each in shown]


def test_settings_standard_input_and_generated_names(place: Place) -> None:
    workload = jobset("true")
    workload["metadata"] = {"generateName": "run-"}
    done = place.run("explain", "-", "--set", "spec.replicatedJobs[w].replicas=3", stdin=json.dumps(workload))
    assert done.returncode == 0, done.stderr
    assert "run-xxxxx-w-2" in done.stdout


def test_what_cannot_be_explained(place: Place) -> None:
    nothing = place.run("explain", place.write({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}))
    assert nothing.returncode == 2
    assert "holds no JobSet to explain" in nothing.stderr
    wrong = place.run("explain", place.write(jobset("true", spec={"replicas": 1})))
    assert wrong.returncode == 2
    assert "spec.replicas" in wrong.stderr
    assert "Traceback" not in nothing.stderr + wrong.stderr


def test_help_lists_every_command(place: Place) -> None:
    done = place.run("--help")
    assert done.returncode == 0
    assert all(f"  {command} " in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_helps(place: Place, command: str) -> None:
    done = place.run(command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: jobset {command}")
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_run_help_tells_exit_codes_and_shapes(place: Place) -> None:
    told = place.run("run", "--help").stdout
    for code in ("0 ", "1 ", "2 ", "124 ", "130 "):
        assert f"\n    {code}" in told or f"\n  {code}" in told
    assert "log " in told
    assert "namespace, pod, container, attempt, stream, line" in told


def test_unknown_commands_and_options_are_bad_input(place: Place) -> None:
    for arguments in (("rum",), ("run",), ("run", "--no-such-option", "x")):
        done = place.run(*arguments)
        assert done.returncode == 2
        assert "Usage: jobset" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(place: Place, shell: str) -> None:
    done = place.run("completion", shell)
    assert done.returncode == 0
    assert "_JOBSET_COMPLETE" in done.stdout
    if shutil.which(shell):
        script = place.directory / "script"
        script.write_text(done.stdout)
        checked = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [("jobset va", "validate"), ("jobset run --ti", "--timeout"), ("jobset run --network h", "host")],
)
def test_completion_completes_in_bash(place: Place, words: str, offered: str) -> None:
    programs = place.directory / "bin"
    programs.mkdir()
    launcher = programs / "jobset"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -m jobset.cli.main "$@"\n')
    launcher.chmod(0o755)
    count = len(words.split())
    script = f"""
        export PATH={programs}:$PATH
        source <(jobset completion bash)
        COMP_WORDS=({words}) COMP_CWORD={count - 1}
        _jobset_completion jobset
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, env=place.environment()
    )  # fmt: skip
    assert offered in done.stdout.split(), done.stdout + done.stderr


def test_a_defect_is_told_in_one_line(place: Place) -> None:
    broken = "import jobset.cli.main as m; m.cli.main = lambda **_: 1 / 0; m.main([])"
    done = subprocess.run(
        [sys.executable, "-c", broken], capture_output=True, text=True, check=False, env=place.environment()
    )
    assert done.returncode == 70
    (line,) = done.stderr.splitlines()
    assert "ZeroDivisionError" in Path(line.split()[-1]).read_text()
