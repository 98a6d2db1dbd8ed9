"""The custom resource definition: complete, structural, and as it lies in deploy/."""

import json
import runpy
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobset.api.errors import Invalid
from jobset.api.resources import CUSTOM_RESOURCE_DEFINITIONS, JOBSETS
from jobset.api.structure import check_structure, structure_of, unknown_fields
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.store.memory import MemoryStore
from jobset.core.admission.crd import custom_resource_definition
from jobset.core.admission.defaulting import default_jobset

ROOT = Path(__file__).parents[2]
DEFINITION = "#io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
SCHEMA: dict[str, Any] = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def schemas(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from schemas(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from schemas(schema[key], f"{path}[]")


def test_deploy_is_up_to_date() -> None:
    rendered = runpy.run_path(str(ROOT / "tools/generate_crd.py"))["rendered"]()
    assert (ROOT / "deploy/crd.yaml").read_text() == rendered, "run tools/generate_crd.py"
    assert yaml.safe_load(rendered) == custom_resource_definition()


def test_it_is_a_definition_as_kubernetes_knows_it() -> None:
    crd = custom_resource_definition()
    assert check_structure(crd, {"$ref": DEFINITION}) == []
    assert unknown_fields(crd, {"$ref": DEFINITION}) == []


def test_it_is_structural() -> None:
    for path, schema in schemas(SCHEMA, ""):
        assert "$ref" not in schema, path
        assert isinstance(schema.get("type"), str) or schema.get("x-kubernetes-int-or-string"), path
        assert (schema.get("type") == "array") == ("items" in schema), path
        items = schema.get("items", {})
        for key in schema.get("x-kubernetes-list-map-keys", ()):
            assert key in items.get("required", ()) or "default" in items["properties"][key], f"{path}: {key}"


def test_what_it_says_of_the_main_fields() -> None:
    spec = SCHEMA["properties"]["spec"]["properties"]
    replicated_job = spec["replicatedJobs"]["items"]["properties"]
    assert replicated_job["replicas"] == {"type": "integer", "format": "int32", "minimum": 0, "default": 1}
    assert replicated_job["dependsOn"]["maxItems"] == 5
    assert spec["failurePolicy"]["properties"]["restartStrategy"]["default"] == "Recreate"
    immutable = {name for name, part in spec.items() if "x-kubernetes-validations" in part}
    assert immutable == {"network", "successPolicy", "failurePolicy", "startupPolicy", "volumeClaimPolicies"}
    container = replicated_job["template"]["properties"]["spec"]["properties"]["template"]["properties"]["spec"]
    assert container["properties"]["containers"]["items"]["required"] == ["name"]
    columns = custom_resource_definition()["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [column["name"] for column in columns] == ["TerminalState", "Restarts", "Completed", "Suspended", "Age"]


def test_what_admission_stores_fits_it() -> None:
    stored = default_jobset(json.loads((ROOT / "tests/core/rich_jobset.json").read_text()))
    spec = structure_of(SCHEMA["properties"]["spec"])
    assert spec.problems(stored["spec"], "spec") == []
    assert spec.unknown(stored["spec"], "spec") == []


def test_an_api_server_serves_it() -> None:
    """The embedded one: defaults and prunes JobSets by this definition alone, and refuses what is out of bounds."""
    service = ApiService(MemoryStore(), now=lambda: datetime(2026, 1, 1, tzinfo=UTC), seed=0)
    service.create(CUSTOM_RESOURCE_DEFINITIONS, "", custom_resource_definition())
    rich = json.loads((ROOT / "tests/core/rich_jobset.json").read_text())
    rich["metadata"]["namespace"] = "default"
    del rich["spec"]["replicatedJobs"][0]["replicas"]
    created = service.create(JOBSETS, "default", rich)
    assert created["spec"]["replicatedJobs"][0]["replicas"] == 1
    changed = service.patch(JOBSETS, "default", "js", {"spec": {"nope": 1, "ttlSecondsAfterFinished": 7}})
    assert changed["spec"] == {**created["spec"], "ttlSecondsAfterFinished": 7}
    with pytest.raises(Invalid, match=r"spec\.ttlSecondsAfterFinished"):
        service.patch(JOBSETS, "default", "js", {"spec": {"ttlSecondsAfterFinished": -7}})
