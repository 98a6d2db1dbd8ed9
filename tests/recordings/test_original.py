"""What the original controller wrote, and what ours writes for the same JobSet: field by field.

The recorded JobSets are as stored, so admission has run. Our objects are stored in the embedded API server, which adds
the same defaults as the recorded one did; what is left to ignore is identity and time.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jobset.api.jobs import Job
from jobset.api.jobset import from_object
from jobset.api.meta import Object, parse_time
from jobset.api.resources import NAMESPACES
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.store.memory import MemoryStore
from jobset.core.actions import CreateObject
from jobset.core.admission.admit import admit_create
from jobset.core.explain import explain_objects
from jobset.core.features import FeatureGates
from jobset.core.names import service_name
from jobset.core.observed import Observed, observed_of
from jobset.core.plan import plan
from jobset.sim.loop import START

RECORDINGS = sorted((Path(__file__).parent / "original").glob("*.json"))
LATER = parse_time("2026-11-20T11:40:00Z")
CLUSTER_MADE = {
    "Service": {"clusterIPs"},
    "PersistentVolumeClaim": {"volumeName"},
}
MENDED = {"reason": "InOrderStartupPolicyCompleted", "message": "in order startup policy has completed"}


def load(path: Path) -> Object:
    recording: Object = json.loads(path.read_text())
    return recording


def observed_in(recording: Object, **changes: Any) -> Observed:
    jobset = from_object(recording["jobset"])
    jobs = [msgspec.convert(job, Job) for job in recording["jobs"]]
    services = {service["metadata"]["name"]: service for service in recording["service"]}
    known: dict[str, Any] = {
        "jobs": jobs,
        "find_job": lambda _: None,
        "service": services.get(service_name(jobset)),
        "claims": [claim["metadata"]["name"] for claim in recording["pvcs"]],
        "gates": FeatureGates(),
        "now": LATER,
        **changes,
    }
    return observed_of(recording["jobset"], jobset, **known)


def comparable(obj: Object) -> Object:
    """Without what differs between any two clusters: identity, time, status, and what a volume binder adds."""
    kind, metadata = obj["kind"], obj["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace", "labels", "ownerReferences") if key in metadata}
    annotations = metadata.get("annotations") or {}
    kept["annotations"] = {key: value for key, value in annotations.items() if not key.startswith("pv.kubernetes.io/")}
    spec = {key: value for key, value in obj["spec"].items() if key not in CLUSTER_MADE.get(kind, ())}
    text = json.dumps({"kind": kind, "metadata": kept, "spec": spec}, sort_keys=True)
    own_uid = metadata.get("uid")
    result: Object = json.loads(text.replace(own_uid, "OWN-UID") if own_uid else text)
    return result


def stored(actions: list[CreateObject], namespace: str) -> list[Object]:
    service = ApiService(MemoryStore(), now=lambda: START)
    service.create(NAMESPACES, "", {"metadata": {"name": namespace}})
    return [comparable(service.create(each.resource, namespace, each.body)) for each in actions]


def by_identity(objects: list[Object]) -> dict[tuple[str, str], Object]:
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}


def admitted(recording: Object) -> Object:
    """The applied manifest after our own admission, with the identity and status that the recorded one had."""
    theirs = recording["jobset"]
    namespace = theirs["metadata"]["namespace"]
    applied = recording["applied"]
    applied = {**applied, "metadata": {**applied["metadata"], "namespace": namespace}}
    ours = admit_create(applied, FeatureGates(), {})
    return {**ours, "metadata": {**ours["metadata"], "uid": theirs["metadata"]["uid"]}, "status": theirs["status"]}


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_our_objects_are_the_originals(path: Path) -> None:
    recording = load(path)
    jobset = admitted(recording)
    ours = by_identity(stored(explain_objects(jobset, FeatureGates()), jobset["metadata"]["namespace"]))
    theirs = by_identity([comparable(obj) for kind in ("jobs", "service", "pvcs") for obj in recording[kind]])
    for identity, obj in theirs.items():
        assert ours[identity] == obj, identity
    if not recording["jobset"]["status"].get("terminalState"):  # else the Jobs that still ran were deleted
        assert ours.keys() == theirs.keys()


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_jobset_begun_by_the_original_goes_on(path: Path) -> None:
    """Nothing to do, nothing to write: the controllers can be exchanged under running JobSets."""
    recording = load(path)
    decided = plan(observed_in(recording))
    assert decided.actions == ()
    assert decided.events == ()
    if path.stem == "in-order":  # a startup condition that ended tells why, in place of why it began
        conditions = [
            {**each, **MENDED} if each["type"] == "StartupPolicyInProgress" else each
            for each in recording["jobset"]["status"]["conditions"]
        ]
        assert decided.status == {**recording["jobset"]["status"], "conditions": conditions}
    else:
        assert decided.status is None
