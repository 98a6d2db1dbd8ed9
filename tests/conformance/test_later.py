"""Recorded areas that wait for the HTTP server: counted as skipped, one by one."""

import pytest

from conformance import adapter

AREAS = {
    "auth": "tokens and reviews",
    "discovery": "discovery documents",
    "table": "tables and metadata-only answers",
}


@pytest.mark.parametrize("case", [case for area, why in AREAS.items() for case in adapter.all_later(area, why)])
def test_recorded(case: dict) -> None:
    raise AssertionError("no case of these areas is to run yet")
