"""Whatever is done to a manifest, admission answers with an API error or with an object that can be decoded."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobset.api.errors import ApiError, BadRequest, Invalid
from jobset.api.jobset import from_object
from jobset.api.structure import prune, unknown_fields
from jobset.cli.manifest import Document
from jobset.cli.verdict import judge_create
from jobset.core.admission.admit import admit_create, admit_update
from jobset.core.admission.defaulting import SCHEMA, default_jobset
from jobset.core.features import FeatureGates

RICH: dict[str, Any] = json.loads((Path(__file__).parent / "rich_jobset.json").read_text())
WORDS = [
    "",
    "a",
    "b",
    "c",
    "data",
    "Indexed",
    "NonIndexed",
    "InOrder",
    "InPlaceRestart",
    "RestartJob",
    "1Gi",
    "-1",
    "a" * 64,
]
WORDS += ["A_b", "x.io/y", "é", "a(b", "\n", "0", "true", "2026-01-01T00:00:00Z"]
FIELDS = [
    "name",
    "spec",
    "metadata",
    "template",
    "replicas",
    "dependsOn",
    "rules",
    "action",
    "containers",
    "nope",
    "labels",
]
values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | st.text(), inner, max_size=3),
    max_leaves=5,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key or index) in a JSON value."""
    found: list[tuple[Any, Any]] = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items):
        found.append((value, key))
        found.extend(places(item))
    return found


@st.composite
def mutants(draw: st.DrawFn) -> dict[str, Any]:
    """RICH with one to three parts taken away, replaced, put in or doubled."""
    mutant = copy.deepcopy(RICH)
    for _ in range(draw(st.integers(1, 3))):
        options = places(mutant)
        if not options:
            break
        container, key = draw(st.sampled_from(options))
        match draw(st.sampled_from(["delete", "replace", "insert", "double"])):
            case "delete":
                del container[key]
            case "replace":
                container[key] = draw(values)
            case "insert" if isinstance(container, dict):
                container[draw(st.sampled_from(FIELDS) | st.text())] = draw(values)
            case "insert":
                container.insert(key, draw(values))
            case "double" if isinstance(container, list):
                container.append(copy.deepcopy(container[key]))
    return mutant


def check_answer(answer: dict[str, Any]) -> None:
    from_object(answer)
    assert unknown_fields(prune(answer, SCHEMA), SCHEMA) == []


def test_what_is_mutated_is_accepted_as_it_is() -> None:
    check_answer(admit_create(RICH, FeatureGates(), {}))


@pytest.mark.parametrize("gates", [FeatureGates(), FeatureGates(False, False, False)], ids=["all-gates", "no-gates"])
@settings(deadline=None, max_examples=150)
@given(mutant=mutants())
def test_a_mutant_is_refused_in_words_or_decodes(gates: FeatureGates, mutant: dict[str, Any]) -> None:
    before = copy.deepcopy(mutant)
    claims = {"data-js": {"metadata": {"name": "data-js"}, "spec": {"accessModes": ["ReadWriteMany"]}}}
    for existing in ({}, claims):
        try:
            check_answer(admit_create(mutant, gates, existing))
        except (BadRequest, Invalid) as error:
            assert error.causes or not isinstance(mutant, dict)
            assert all(cause.message and cause.reason for cause in error.causes)
    assert repr(mutant) == repr(before), "admission changes nothing it is given"


@settings(deadline=None, max_examples=150)
@given(mutants(), mutants())
def test_an_update_to_a_mutant_is_refused_in_words_or_decodes(new: dict[str, Any], old: dict[str, Any]) -> None:
    stored = default_jobset(RICH)
    for before in (stored, old):
        try:
            check_answer(admit_update(new, before, FeatureGates()))
        except ApiError as error:
            assert isinstance(error, BadRequest | Invalid)


def cut_out(mutant: Any, kind: str) -> Any:
    """The mutant itself, or the Job or Pod that stands in its first template; None when there is none."""
    if kind == "JobSet":
        return mutant
    try:
        template = mutant["spec"]["replicatedJobs"][0]["template"]
        if kind == "Job":
            return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": template["spec"]}
        pod_spec = template["spec"]["template"]["spec"]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod_spec}
    except (KeyError, IndexError, TypeError):
        return None


@pytest.mark.parametrize("kind", ["JobSet", "Job", "Pod"])
@settings(deadline=None, max_examples=100)
@given(mutant=mutants())
def test_the_command_line_has_a_verdict_on_every_mutant(kind: str, mutant: dict[str, Any]) -> None:
    """As `jobset validate` sees it, the Jobs that a JobSet would create included."""
    obj = cut_out(mutant, kind)
    if isinstance(obj, dict) and obj.get("kind") == kind:
        [verdict] = judge_create([Document(obj, "mutant.yaml")], FeatureGates())
        assert verdict.accepted == (verdict.object is not None)
        assert all(str(problem).startswith("mutant.yaml:1: ") for problem in verdict.problems())
