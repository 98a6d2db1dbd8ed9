"""Recorded cases: dryrun."""

import pytest

from conformance import adapter
from conformance.conftest import Replayed

LATER = {}
"""Cases that need what only the HTTP server has."""


@pytest.mark.parametrize("case", adapter.cases("dryrun", LATER))
def test_recorded(case: dict, replayed: Replayed) -> None:
    replayed.check(case)
