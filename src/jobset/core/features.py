"""Feature gates (section 11.3): an input of admission and of every pass, never read from anywhere. Pure.

Same names as the original's; here all are on unless turned off.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

_FIELD_OF_GATE = {
    "InPlaceRestart": "in_place_restart",
    "RestartJob": "restart_job",
    "ElasticJobSet": "elastic_jobset",
    "TLSOptions": "tls_options",
}


class FeatureGates(Struct, frozen=True):
    in_place_restart: bool = True
    """restartStrategy InPlaceRestart may be used."""
    restart_job: bool = True
    """Failure policy actions RestartJob and RestartJobAndIgnoreMaxRestarts, and the per-Job restart labels."""
    elastic_jobset: bool = True
    """parallelism and completions of Indexed Jobs may change while the JobSet runs."""
    tls_options: bool = True
    """The operator's TLS settings are honoured. Cannot be turned off."""


def parse_feature_gates(gates: Mapping[str, bool]) -> FeatureGates:
    """Gates by their public names, such as {"RestartJob": False}. Raises ValueError on what is not a gate."""
    unknown = sorted(gates.keys() - _FIELD_OF_GATE.keys())
    if unknown:
        raise ValueError(f"unknown feature gate {unknown[0]!r}; there are: {', '.join(sorted(_FIELD_OF_GATE))}")
    if gates.get("TLSOptions") is False:
        raise ValueError("feature gate 'TLSOptions' is locked to true")
    return FeatureGates(**{_FIELD_OF_GATE[name]: on for name, on in gates.items()})
