"""Recorded cases: subresource."""

import pytest

from conformance import adapter
from conformance.conftest import Replayed

LATER = {
    "subresource.pod-log-shapes": "streams of pods need connections: test_https.py",
}
"""Cases that are replayed over HTTPS only."""


@pytest.mark.parametrize("case", adapter.cases("subresource", LATER))
def test_recorded(case: dict, replayed: Replayed) -> None:
    replayed.check(case)
