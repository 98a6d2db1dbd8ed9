"""Recorded cases: watch."""

import pytest

from conformance import adapter
from conformance.conftest import Replayed

LATER = {
    "watch.partial-metadata": "metadata-only answers",
}
"""Cases that need what only the HTTP server has."""


@pytest.mark.parametrize("case", adapter.cases("watch", LATER))
def test_recorded(case: dict, replayed: Replayed) -> None:
    replayed.check(case)
