"""The same tests again as somebody who may do less: a user without privileges, and one without any namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs root to become another user")
]
HERE = Path(__file__).parent
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
NO_NAMESPACES = (
    'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all -- "$@"'
)
WITHOUT_NAMESPACES = ["unshare", "--user", "--map-root-user", "sh", "-c", NO_NAMESPACES, "sh"]


def _python_for_everybody() -> str:
    """One that another user can run: ours may lie in a home directory."""
    start_yourself = "import os, sys; os.execv(sys.executable, [sys.executable, '-c', ''])"
    for path in (sys.executable, f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"):
        command = [*AS_NOBODY, path, "-c", start_yourself]
        if Path(path).exists() and subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return path
    pytest.skip("no Python here that another user can run")


def _run_tests_as(prefix: list[str], python: str) -> str:
    """The last lines of what pytest says."""
    if shutil.which(prefix[0]) is None:
        pytest.skip(f"{prefix[0]} is not installed")
    files = sorted(str(path) for path in HERE.glob("test_process_*.py") if path.name != Path(__file__).name)
    with tempfile.TemporaryDirectory() as home:
        os.chmod(home, 0o777)
        env = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": home,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path and not path.endswith(".zip")),
        }
        command = [*prefix, python, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--no-header", "-rs", *files]
        done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=HERE, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.timeout(180)
def test_everything_works_without_privileges() -> None:
    said = _run_tests_as(AS_NOBODY, _python_for_everybody())
    assert "no namespaces here" not in said, said


@pytest.mark.timeout(180)
def test_what_needs_no_namespaces_works_without_them() -> None:
    said = _run_tests_as([*AS_NOBODY, *WITHOUT_NAMESPACES], _python_for_everybody())
    assert "no namespaces here" in said
