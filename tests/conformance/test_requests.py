"""Recorded cases: requests."""

import pytest

from conformance import adapter
from conformance.conftest import Replayed

LATER = {
    "requests.unsupported-media-type": "media types",
    "requests.yaml-body": "YAML bodies",
    "requests.yaml-answer": "YAML answers",
    "requests.duplicate-json-key": "duplicate keys are seen only by the JSON decoder",
}
"""Cases that need what only the HTTP server has."""


@pytest.mark.parametrize("case", adapter.cases("requests", LATER))
def test_recorded(case: dict, replayed: Replayed) -> None:
    replayed.check(case)
