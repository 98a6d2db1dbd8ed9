"""The catalogue of wrong manifests: each gives clear messages with their places, exit code 2 and no traceback.

The manifests lie in bad_manifests/, most of them good_manifest.yaml with one mistake; bad_manifests.json is the table
of what must be said of each.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from jobset.cli.manifest import MAX_BYTES
from jobset.cli.validate import validate

HERE = Path(__file__).parent
FOLDER = HERE / "bad_manifests"

ESSENTIAL: dict[str, list[str]] = json.loads((HERE / "bad_manifests.json").read_text())
"""For each manifest what must be said, after its name; several texts mean several problems."""


def test_the_good_manifest_is_good() -> None:
    result = CliRunner().invoke(validate, [str(HERE / "good_manifest.yaml")])
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith("good_manifest.yaml:1: JobSet train is valid\n")


def test_the_table_and_the_folder_agree() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == ESSENTIAL.keys()


@pytest.mark.parametrize("name", ESSENTIAL)
def test_wrong_manifest(name: str) -> None:
    path = str(FOLDER / f"{name}.yaml")
    result = CliRunner().invoke(validate, [path])
    assert result.exit_code == 2, result.output
    for text in ESSENTIAL[name]:
        assert text in result.stderr
    lines = result.stderr.splitlines()
    assert all(line.startswith(f"error: {path}") for line in lines), "one line for each problem, with its place"
    assert len(lines) <= 2 * len(ESSENTIAL[name]), "nothing is said over and over"


@pytest.mark.parametrize("name", ["binary", "two-problems", "yaml-bomb", "nested-too-deep"])
def test_wrong_manifest_through_the_real_command(name: str) -> None:
    path = str(FOLDER / f"{name}.yaml")
    command = [sys.executable, "-m", "jobset.cli.main", "validate", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for text in ESSENTIAL[name]:
        assert text in done.stderr


def test_a_huge_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    huge = tmp_path / "huge.yaml"
    with huge.open("wb") as file:
        file.truncate(100 * MAX_BYTES)
    result = CliRunner().invoke(validate, [str(huge)])
    assert result.exit_code == 2
    assert result.stderr == f"error: {huge}: is larger than 10 MiB, too large for a manifest\n"


def test_too_many_values(tmp_path: Path) -> None:
    many = tmp_path / "many.yaml"
    many.write_text("- 1\n" * 400_000)
    result = CliRunner().invoke(validate, [str(many)])
    assert result.exit_code == 2
    assert "holds more than 300000 values, too many for a manifest" in result.stderr


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("/does/not/exist.yaml", "/does/not/exist.yaml: cannot be read: No such file or directory"),
        (str(HERE), "is a directory; name a file in it"),
        ("ftp://example.com/job.yaml", "only http and https addresses can be read"),
        ("http://127.0.0.1:9/job.yaml", "cannot be read: "),
        ("https://", "cannot be read: "),
        ("a\0b", "cannot be read: embedded null byte"),
    ],
)
def test_source_that_cannot_be_read(source: str, said: str) -> None:
    result = CliRunner().invoke(validate, [source])
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_no_file_at_all_is_a_usage_error() -> None:
    assert CliRunner().invoke(validate, []).exit_code == 2
