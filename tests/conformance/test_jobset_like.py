"""Recorded cases: jobset-like."""

import pytest

from conformance import adapter
from conformance.conftest import Replayed

LATER = {
    "jobset-like.jobs-cannot-be-added": "rules in CEL",
    "jobset-like.depends-on-rules": "rules in CEL",
    "jobset-like.table": "tables",
}
"""Cases that need what only the HTTP server has, server-side apply, or an interpreter of CEL."""


@pytest.mark.parametrize("case", adapter.cases("jobset-like", LATER))
def test_recorded(case: dict, replayed: Replayed) -> None:
    replayed.check(case)
