"""Every recorded verdict of the original's admission, against ours."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from jobset.api.errors import ApiError
from jobset.api.jobset import from_object
from jobset.core.admission.admit import admit_create, admit_update
from jobset.core.features import FeatureGates

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CASES = {case["name"]: case for case in map(json.loads, (HERE / "admission.jsonl").read_text().splitlines())}
DOCUMENTED = set(
    re.findall(r"^\| `((?:create|update)\.[\w.-]+)` \|", (ROOT / "docs/compatibility.md").read_text(), re.M)
)


def disagreement(case: dict[str, Any]) -> str:
    """How our verdict differs from the recorded one; empty when it does not."""
    verdict, gates = case["verdict"], FeatureGates()
    try:
        if "change_to" in case:
            result = admit_update(case["change_to"], case["object"], gates)
        else:
            result = admit_create(case["object"], gates, {})
    except ApiError as error:
        if verdict["status"] != error.code:
            return f"answered {error.code} instead of {verdict['status']}: {error.message}"
        return fields_disagreement(verdict["causes"], error)
    if verdict["status"] >= 400:
        return f"accepted, was refused: {verdict['message']}"
    from_object(result)
    return "" if result["spec"] == verdict["spec"] else f"spec is {result['spec']}"


def fields_disagreement(recorded: list[dict[str, str]], error: ApiError) -> str:
    """Causes without a field (`<nil>`) may be anywhere in ours; a 400 was recorded without causes."""
    theirs = {cause["field"] for cause in recorded if cause["field"] != "<nil>"}
    unplaced = sum(cause["field"] == "<nil>" and cause["reason"] == "InternalError" for cause in recorded)
    ours = {cause.field for cause in error.causes}
    if error.code == 422 and not (theirs <= ours and len(ours - theirs) == unplaced):
        return f"fields are {sorted(ours)} instead of {sorted(theirs)} and {unplaced} more"
    return ""


@pytest.mark.parametrize("name", CASES)
def test_verdict(name: str) -> None:
    difference = disagreement(CASES[name])
    if name in DOCUMENTED:
        assert difference, "agrees: take it off the table in docs/compatibility.md"
    else:
        assert not difference


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["verdict"]["status"] >= 400])
def test_every_problem_names_its_field_in_words(name: str) -> None:
    case = CASES[name]
    with pytest.raises(ApiError) as caught:
        if "change_to" in case:
            admit_update(case["change_to"], case["object"], FeatureGates())
        else:
            admit_create(case["object"], FeatureGates(), {})
    assert caught.value.causes
    for cause in caught.value.causes:
        assert re.match(r"(metadata|spec)\b", cause.field)
        assert cause.message
        assert "Internal error" not in cause.message


def test_the_table_names_recorded_cases_only() -> None:
    assert DOCUMENTED
    assert CASES.keys() >= DOCUMENTED


@pytest.mark.parametrize("path", sorted((HERE / "original").glob("*.json")), ids=lambda path: path.stem)
def test_what_was_applied_becomes_the_recorded_spec(path: Path) -> None:
    recording = json.loads(path.read_text())
    assert admit_create(recording["applied"], FeatureGates(), {})["spec"] == recording["jobset"]["spec"]
