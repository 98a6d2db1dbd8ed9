"""Reading manifests: scalars as Kubernetes reads them, several documents, lists, URLs, places of fields."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from jobset.cli.manifest import BadManifest, read_manifest
from jobset.cli.settings import apply_settings
from jobset.cli.validate import validate
from jobset.cli.verdict import admitted
from jobset.client.yaml_reader import NotReadable, plain_scalar, read_documents
from jobset.core.features import FeatureGates

GOOD = Path(__file__).parent / "good_manifest.yaml"
ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT / "tests/recordings/admission.jsonl"
COMPATIBILITY = (ROOT / "docs/compatibility.md").read_text()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True), ("y", True), ("On", True), ("TRUE", True), ("no", False), ("n", False), ("OFF", False),
        ("", None), ("~", None), ("null", None), ("nil", "nil"), ("yEs", "yEs"),
        ("0", 0), ("12", 12), ("-3", -3), ("+3", 3), ("1_000", 1000), ("0644", 420), ("0o17", 15), ("0x1F", 31),
        ("0b11", 3), ("-0x10", -16), ("08", 8), ("1e3", 1000), ("2.0", 2), ("2.5", 2.5), (".5", 0.5), ("1.", 1),
        ("12:30", "12:30"), ("190:20:30", "190:20:30"), ("2026-01-31", "2026-01-31"), ("2026-01-31T12:00:00Z",) * 2,
        ("1.2.3", "1.2.3"), ("1Gi", "1Gi"), ("500m", "500m"), ("0x", "0x"), ("-", "-"), ("--1", "--1"), ("1e", "1e"),
        ("v1", "v1"), ("=", "="), ("٣", "٣"),
    ],
)  # fmt: skip
def test_plain_scalar(text: str, value: Any) -> None:
    assert plain_scalar(text) == value
    assert type(plain_scalar(text)) is type(value)


@pytest.mark.parametrize("text", [".inf", "-.INF", ".nan", "1e999", "9" * 70])
def test_number_that_json_cannot_carry(text: str) -> None:
    with pytest.raises(ValueError, match="number"):
        plain_scalar(text)


def test_quoted_scalars_are_text() -> None:
    parsed = read_documents("a: 'yes'\nb: \"12\"\nc: |\n  no\nd: !!str 3\n")[0]
    assert parsed.value == {"a": "yes", "b": "12", "c": "no\n", "d": "3"}


def test_anchors_and_merge_keys() -> None:
    text = "base: &base {image: a, args: [x]}\none:\n  <<: *base\n  image: b\ntwo:\n  <<: [{k: 1}, *base]\n"
    value = read_documents(text)[0].value
    assert value["one"] == {"image": "b", "args": ["x"]}
    assert value["two"] == {"k": 1, "image": "a", "args": ["x"]}


def test_keys_become_text() -> None:
    assert read_documents("on: 1\n1: 2\n'no': 3\n")[0].value == {"true": 1, "1": 2, "no": 3}


def test_json_with_tabs_and_surrogate_pairs() -> None:
    assert read_documents('{\n\t"a": "\\ud83d\\ude00"\n}')[0].value == {"a": "\U0001f600"}
    with pytest.raises(NotReadable, match="'a' stands twice"):
        read_documents('{\n\t"a": 1, "a": 2}')
    with pytest.raises(NotReadable, match="surrogate"):
        read_documents('{\n\t"a": "\\ud83d"}')


def test_places_of_fields() -> None:
    document = read_manifest(str(GOOD)).documents[0]
    assert document.where() == f"{GOOD}:1"
    assert document.where("spec.replicatedJobs[1].name") == f"{GOOD}:19"
    assert document.where("spec.replicatedJobs[1].template.spec.completions") == f"{GOOD}:26"
    assert document.where("spec.replicatedJobs[1].template.spec.absent.more[3]") == f"{GOOD}:25"
    assert document.where("status") == f"{GOOD}:1"


def test_several_documents_and_lists(tmp_path: Path) -> None:
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"
    listed = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Secret\n  metadata: {name: s}\n"
    role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r}\n"
    path = tmp_path / "all.yaml"
    path.write_text("---\n".join(["# start\n", config % "a", listed, role, config % "b"]))
    manifest = read_manifest(str(path))
    assert [document.object["metadata"]["name"] for document in manifest.documents] == ["a", "s", "b"]
    assert [document.line for document in manifest.documents] == [3, 10, 18]
    assert manifest.documents[1].where("metadata.name") == f"{path}:12"
    assert manifest.notes == (f"{path}:14: Role means nothing on one machine: left out",)


def test_text_in_other_encodings(tmp_path: Path) -> None:
    text = GOOD.read_text()
    for encoding in ("utf-8-sig", "utf-16"):
        path = tmp_path / encoding
        path.write_text(text, encoding=encoding)
        assert read_manifest(str(path)).documents[0].object == read_manifest(str(GOOD)).documents[0].object


def test_standard_input() -> None:
    result = CliRunner().invoke(validate, ["-"], input=GOOD.read_text())
    assert (result.exit_code, result.stdout) == (0, "standard input:1: JobSet train is valid\n")


@pytest.fixture
def server() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/good.yaml" else 404)
            self.end_headers()
            self.wfile.write(GOOD.read_bytes())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


def test_manifest_from_a_url(server: str) -> None:
    assert read_manifest(f"{server}/good.yaml").documents[0].where("kind") == f"{server}/good.yaml:2"
    with pytest.raises(BadManifest, match="the server answers 404"):
        read_manifest(f"{server}/absent.yaml")


@pytest.mark.parametrize(
    ("setting", "path", "value"),
    [
        ("spec.suspend=yes", ("spec", "suspend"), True),
        ("spec.replicatedJobs[workers].replicas=4", ("spec", "replicatedJobs", 1, "replicas"), 4),
        ("spec.replicatedJobs[1].replicas=0x10", ("spec", "replicatedJobs", 1, "replicas"), 16),
        ("metadata.annotations[\"a.io/b\"]=1", ("metadata", "annotations", "a.io/b"), "1"),
        ("metadata.name=12", ("metadata", "name"), "12"),
        ("spec.failurePolicy={maxRestarts: 3}", ("spec", "failurePolicy"), {"maxRestarts": 3}),
        ("spec.failurePolicy.maxRestarts=3", ("spec", "failurePolicy", "maxRestarts"), 3),
        ("spec.replicatedJobs[workers].template.spec.template.spec.containers[main].args=[a, b=c]",
         ("spec", "replicatedJobs", 1, "template", "spec", "template", "spec", "containers", 0, "args"), ["a", "b=c"]),
        ("spec.replicatedJobs[driver].template.spec.template.spec.containers[main].resources.limits.cpu=2",
         ("spec", "replicatedJobs", 0, "template", "spec", "template", "spec", "containers", 0, "resources", "limits",
          "cpu"), "2"),
    ],
)  # fmt: skip
def test_set(setting: str, path: tuple[str | int, ...], value: Any) -> None:
    documents = read_manifest(str(GOOD)).documents
    before = json.dumps(documents[0].object)
    found: Any = apply_settings(documents, [setting])[0].object
    for part in path:
        found = found[part]
    assert found == value
    assert json.dumps(documents[0].object) == before, "what was read is not changed"


def test_set_null_removes() -> None:
    documents = read_manifest(str(GOOD)).documents
    changed = apply_settings(documents, ["spec.replicatedJobs[workers].dependsOn=null", "spec.replicatedJobs[0]=null"])
    assert [job["name"] for job in changed[0].object["spec"]["replicatedJobs"]] == ["workers"]
    assert "dependsOn" not in changed[0].object["spec"]["replicatedJobs"][0]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("spec.suspend", "write path=value"),
        ("=3", "write path=value"),
        ("spec.suspnd=true", "spec has no field 'suspnd' (did you mean \"suspend\"?)"),
        ("spec.replicatedJobs[worker].replicas=4", "has no item 'worker'; there are 2: driver, workers"),
        ("spec.replicatedJobs[7].replicas=4", "has no item '7'"),
        ("spec.suspend.deep=1", "spec.suspend has no fields"),
        ("spec.suspend=[", "the value is not YAML"),
    ],
)
def test_set_that_makes_no_sense(setting: str, said: str) -> None:
    result = CliRunner().invoke(validate, [str(GOOD), "--set", setting])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: --set {setting}: ")
    assert said in result.stderr


def test_output_json() -> None:
    good = json.loads(CliRunner().invoke(validate, [str(GOOD), "--output", "json"]).stdout)
    assert [verdict["accepted"] for verdict in good] == [True]
    assert good[0]["object"]["spec"]["replicatedJobs"][0]["template"]["spec"]["completionMode"] == "Indexed"
    assert good[0]["causes"] == []
    result = CliRunner().invoke(validate, [str(GOOD), "-o", "json", "--set", "spec.ttlSecondsAfterFinished=-1"])
    assert result.exit_code == 2
    assert json.loads(result.stdout) == [
        {
            "accepted": False,
            "object": None,
            "causes": [
                {
                    "field": "spec.ttlSecondsAfterFinished",
                    "reason": "FieldValueInvalid",
                    "message": "Invalid value: -1: must be greater than or equal to 0",
                }
            ],
            "warnings": [],
        }
    ]
    nothing = CliRunner().invoke(validate, ["-", "-o", "json"], input="")
    assert nothing.exit_code == 2
    assert json.loads(nothing.stdout)[0]["causes"][0]["message"].startswith("standard input: is empty")


def test_jobs_that_will_be_refused_are_foreseen(tmp_path: Path) -> None:
    """Admission accepts what only the Job controller can judge; `validate` warns of it, and `run` does not start it."""
    wrong = "spec.replicatedJobs[workers].template.spec.successPolicy={rules: []}"
    result = CliRunner().invoke(validate, [str(GOOD), "--set", wrong])
    assert result.exit_code == 0
    place = "spec.replicatedJobs[1].template.spec.successPolicy.rules"
    assert result.stderr.startswith(f"warning: {GOOD}:25: {place}: Required value")
    documents = apply_settings(read_manifest(str(GOOD)).documents, [wrong])
    with pytest.raises(BadManifest, match=r"Kubernetes refuses to create Jobs from this template"):
        admitted(documents, FeatureGates())


def test_judged_as_an_update(tmp_path: Path) -> None:
    suspended = ["--old", str(GOOD), "--set", "spec.suspend=true"]
    assert CliRunner().invoke(validate, [str(GOOD), *suspended]).exit_code == 0
    result = CliRunner().invoke(
        validate, [str(GOOD), "--old", str(GOOD), "--set", "spec.replicatedJobs[workers].replicas=3"]
    )
    assert result.exit_code == 2
    assert "spec.replicatedJobs[1].replicas: field is immutable" in result.stderr
    other = tmp_path / "config.yaml"
    other.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n")
    result = CliRunner().invoke(validate, [str(GOOD), "--old", str(other)])
    assert result.exit_code == 2
    assert "the old manifest has no JobSet 'train'" in result.stderr


@pytest.mark.parametrize(
    "case", [json.loads(line) for line in RECORDINGS.read_text().splitlines()], ids=lambda case: str(case["name"])
)
def test_recorded_verdicts_through_the_command(case: dict[str, Any], tmp_path: Path) -> None:
    """The command says what admission says (tests/recordings), whether of a create or an update."""
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(case["object"]))
    new.write_text(json.dumps(case.get("change_to", case["object"])))
    arguments = [str(new), "-o", "json", *(["--old", str(old)] if "change_to" in case else [])]
    result = CliRunner().invoke(validate, arguments)
    [verdict] = json.loads(result.stdout)
    if f"| `{case['name']}` |" not in COMPATIBILITY:
        assert verdict["accepted"] == (case["verdict"]["status"] < 300)
        assert not verdict["accepted"] or verdict["object"]["spec"] == case["verdict"]["spec"]
    assert result.exit_code == (0 if verdict["accepted"] else 2)
