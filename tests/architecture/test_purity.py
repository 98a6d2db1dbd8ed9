"""Pure code does no I/O: an audit hook watches while it admits, plans, schedules and decides about Jobs and pods."""

import json
import subprocess
import sys
from pathlib import Path

RECORDINGS = Path(__file__).parents[1] / "recordings"

PROGRAM = """
import json, sys
from datetime import UTC, datetime

jobset = json.loads(sys.stdin.read())

from jobset.api.resources import JOBS, PODS
from jobset.cluster.model.kinds.registry import KINDS
from jobset.core.admission.admit import admit_create
from jobset.core.explain import explain_objects
from jobset.core.features import FeatureGates
from jobset.core.observed import observed_of
from jobset.core.plan import plan
from jobset.api.jobset import from_object

now = datetime(2026, 1, 1, tzinfo=UTC)


def decide():
    stored = admit_create(jobset, FeatureGates(), {})
    stored = {**stored, "metadata": {**stored["metadata"], "uid": "u", "resourceVersion": "1", "namespace": "default"}}
    view = from_object(stored)
    observed = observed_of(
        stored, view, jobs=[], find_job=lambda name: None, service=None, claims=[], gates=FeatureGates(), now=now
    )
    made = plan(observed)
    jobs = [action.body for action in made.actions if action.resource == JOBS]
    assert jobs and explain_objects(stored, FeatureGates())
    for job in jobs:
        named = {**job, "metadata": {**job["metadata"], "uid": "j"}}
        defaulted = KINDS[JOBS].prepare_create(KINDS[JOBS].default(named))
        assert KINDS[JOBS].validate(defaulted) == []
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
        whole = KINDS[PODS].default({**pod, "spec": defaulted["spec"]["template"]["spec"]})
        assert KINDS[PODS].validate(whole) == []


decide()  # what is imported late is imported now
seen = []
FORBIDDEN = ("open", "socket.", "subprocess.", "os.", "shutil.", "tempfile.", "urllib.", "ctypes.", "sqlite3.")
sys.addaudithook(lambda event, args: seen.append((event, args)) if event.startswith(FORBIDDEN) else None)
decide()
watched = list(seen)
open("/dev/null").close()
print(json.dumps({"watched": [str(each) for each in watched], "hook_works": len(seen) > len(watched)}))
"""


def test_deciding_touches_nothing_outside() -> None:
    applied = json.loads((RECORDINGS / "original/driver-workers.json").read_text())["applied"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=json.dumps(applied), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["hook_works"]
    assert answer["watched"] == []
