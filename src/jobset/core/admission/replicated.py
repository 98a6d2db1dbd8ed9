"""The replicated jobs of a raw JobSet spec with their positions, for the checks of this package. Pure.

Checks run on raw objects whose types were checked but where required fields may be missing; reading them here, once,
keeps the checks free of that.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from jobset.api.meta import Object

_EMPTY: Object = {}


class Replicated(Struct, frozen=True):
    """One entry of spec.replicatedJobs, and the path to it."""

    raw: Object
    path: str

    @property
    def name(self) -> str:
        return str(self.raw.get("name", ""))

    @property
    def replicas(self) -> int:
        return int(self.raw.get("replicas", 1))

    @property
    def job_spec(self) -> Object:
        spec: Object = self.raw.get("template", _EMPTY).get("spec", _EMPTY)
        return spec

    @property
    def job_spec_path(self) -> str:
        return f"{self.path}.template.spec"

    @property
    def pod_template(self) -> Object:
        template: Object = self.job_spec.get("template", _EMPTY)
        return template

    @property
    def pod_spec(self) -> Object:
        spec: Object = self.pod_template.get("spec", _EMPTY)
        return spec

    @property
    def pod_spec_path(self) -> str:
        return f"{self.path}.template.spec.template.spec"

    @property
    def indexed(self) -> bool:
        return bool(self.job_spec.get("completionMode", "Indexed") == "Indexed")

    def containers(self) -> list[tuple[str, Object]]:
        """(path, container), init containers first."""
        return [
            (f"{self.pod_spec_path}.{field}[{index}]", container)
            for field in ("initContainers", "containers")
            for index, container in enumerate(self.pod_spec.get(field, ()))
        ]


def replicated_jobs(spec: Object) -> list[Replicated]:
    return [
        Replicated(raw, f"spec.replicatedJobs[{index}]") for index, raw in enumerate(spec.get("replicatedJobs", ()))
    ]


def section(spec: Object, name: str) -> Any:
    """A part of the spec, empty when absent."""
    return spec.get(name, _EMPTY)
