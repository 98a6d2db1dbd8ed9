"""Recorded cases: crd."""

import pytest

from conformance import adapter
from conformance.conftest import Replayed

LATER = {
    "crd.table-default-columns": "descriptions of Kubernetes' own fields are left out",
}
"""Cases that are not to pass, and why."""


@pytest.mark.parametrize("case", adapter.cases("crd", LATER))
def test_recorded(case: dict, replayed: Replayed) -> None:
    replayed.check(case)
