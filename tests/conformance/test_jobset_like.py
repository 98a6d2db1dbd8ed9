"""Recorded cases: jobset-like."""

import pytest

from conformance import adapter
from conformance.conftest import Replayed


@pytest.mark.parametrize("case", adapter.cases("jobset-like"))
def test_recorded(case: dict, replayed: Replayed) -> None:
    replayed.check(case)
