"""How long a failed pod's replacement has to wait: a base that doubles with each failure in a row. Pure.

A Job remembers failures since its last success (`Failures`); with backoffLimitPerIndex each index counts by itself,
through annotations on its pods. The memory is the controller's, not the Job's: lost with a restart, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct


class RetryDelays(Struct, frozen=True):
    base_s: float = 10.0
    max_s: float = 600.0

    def remaining_s(self, failures: int, last: datetime | None, now: datetime) -> float:
        """Seconds until the replacement may be made after `failures` in a row, the last of them at `last`."""
        if failures <= 0 or last is None:
            return 0.0
        delay_s = min(self.base_s * 2.0 ** min(failures - 1, 64), self.max_s)
        return max(0.0, delay_s - (now - last).total_seconds())


class Failures(Struct, frozen=True):
    """Failures in a row since the last success."""

    count: int = 0
    last: datetime | None = None

    def after(self, succeeded: Sequence[datetime], failed: Sequence[datetime]) -> Failures:
        """With pods that newly ended at these times."""
        if succeeded:
            failed = [moment for moment in failed if moment > max(succeeded)]
            return Failures(len(failed), max(failed, default=None))
        return Failures(self.count + len(failed), max(failed)) if failed else self


NO_FAILURES = Failures()
KUBERNETES_DELAYS = RetryDelays()
