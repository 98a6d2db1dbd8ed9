"""Recorded cases: crd."""

import pytest

from conformance import adapter
from conformance.conftest import Replayed

LATER = {
    "crd.aggregated-discovery": "discovery documents",
    "crd.selectable-fields": "tables",
    "crd.table-default-columns": "tables",
    "crd.table-printer-columns": "tables",
    "crd.partial-metadata": "metadata-only answers",
    "crd.cel.reason-and-field-path": "rules in CEL",
    "crd.cel.transition-rule": "rules in CEL",
    "crd.cel.message-expression-in-items": "rules in CEL",
    "crd.cel.bad-rule-is-refused": "rules in CEL",
    "crd.two-versions-share-storage": "discovery documents",
}
"""Cases that need what only the HTTP server has, server-side apply, or an interpreter of CEL."""


@pytest.mark.parametrize("case", adapter.cases("crd", LATER))
def test_recorded(case: dict, replayed: Replayed) -> None:
    replayed.check(case)
