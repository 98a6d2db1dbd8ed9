"""Recorded cases: subresource."""

import pytest

from conformance import adapter
from conformance.conftest import Replayed

LATER = {
    "subresource.serviceaccount-token": "tokens",
    "subresource.pod-log-shapes": "logs",
}
"""Cases that need what only the HTTP server has."""


@pytest.mark.parametrize("case", adapter.cases("subresource", LATER))
def test_recorded(case: dict, replayed: Replayed) -> None:
    replayed.check(case)
