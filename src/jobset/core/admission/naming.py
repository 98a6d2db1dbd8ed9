"""Whether all names that a JobSet will bring about are legal: Jobs, pods, Service, groups (rules 3 to 10). Pure."""

from __future__ import annotations

from collections.abc import Callable

from jobset.api.errors import Cause
from jobset.api.field_errors import invalid, required, too_long
from jobset.api.meta import Object
from jobset.api.name_rules import (
    LABEL_MAX,
    dns_label_1035_problems,
    dns_subdomain_problems,
    domain_prefixed_path_problems,
    label_value_problems,
    qualified_name_problems,
)
from jobset.core.admission.replicated import Replicated, section
from jobset.core.names import (
    GENERATED_NAME_PREFIX_MAX,
    GENERATED_NAME_SUFFIX_LENGTH,
    POD_NAME_SUFFIX_LENGTH,
    job_name,
    pod_hostname,
)


def metadata_problems(obj: Object) -> list[Cause]:
    """Name, labels and annotations of the JobSet itself."""
    metadata = obj.get("metadata", {})
    causes = []
    if metadata.get("name"):
        causes += _each(dns_subdomain_problems, metadata["name"], "metadata.name")
    elif metadata.get("generateName"):
        sample = f"{metadata['generateName'].rstrip('-')}-x"
        causes += _each(dns_subdomain_problems, sample, "metadata.generateName")
    else:
        causes.append(required("metadata.name", "name or generateName is required"))
    return causes + label_problems(metadata, "metadata")


def label_problems(metadata: Object, path: str) -> list[Cause]:
    """Labels and annotations: qualified names as keys, label values."""
    causes = []
    for key, value in metadata.get("labels", {}).items():
        causes += _each(qualified_name_problems, key, f"{path}.labels")
        causes += _each(label_value_problems, value, f"{path}.labels")
    for key in metadata.get("annotations", {}):
        causes += _each(qualified_name_problems, key.lower(), f"{path}.annotations")
    return causes


def effective_name(obj: Object) -> str:
    """The JobSet's name; for generateName one as long as the API server will make it.

    A name that is itself refused is stood in for, so that it is not refused again for every name made from it.
    """
    metadata = obj.get("metadata", {})
    name = str(metadata.get("name", ""))
    if not name:
        name = metadata.get("generateName", "")[:GENERATED_NAME_PREFIX_MAX] + "x" * GENERATED_NAME_SUFFIX_LENGTH
    return "x" if dns_subdomain_problems(name) else name


def generated_name_problems(jobset: str, spec: Object, replicated: list[Replicated]) -> list[Cause]:
    causes = _subdomain_problems(spec) + _managed_by_problems(spec)
    for item in replicated:
        causes += _group_problems(item)
        causes += _job_name_problems(jobset, item)
    return causes


def _subdomain_problems(spec: Object) -> list[Cause]:
    subdomain, path = section(spec, "network").get("subdomain", ""), "spec.network.subdomain"
    if not subdomain:
        return []
    if len(subdomain) > LABEL_MAX:
        return [invalid(path, subdomain, _length(subdomain, "the subdomain"))]
    return _each(dns_subdomain_problems, subdomain, path) or _each(dns_label_1035_problems, subdomain, path)


def _managed_by_problems(spec: Object) -> list[Cause]:
    managed_by, path = spec.get("managedBy"), "spec.managedBy"
    if managed_by is None:
        return []
    if not managed_by:
        return [required(path, "the controller's name, such as acme.io/foo, or leave the field out")]
    causes = _each(domain_prefixed_path_problems, managed_by, path)
    if len(managed_by.encode()) > LABEL_MAX:
        causes.append(too_long(path, LABEL_MAX))
    return causes


def _group_problems(item: Replicated) -> list[Cause]:
    group, path = item.raw.get("groupName", "default"), f"{item.path}.groupName"
    if len(group) > LABEL_MAX:
        return [invalid(path, group, _length(group, "the group name"))]
    return _each(dns_label_1035_problems, group, path)


def _job_name_problems(jobset: str, item: Replicated) -> list[Cause]:
    """Checks the longest names, those of the last Job and its last pod."""
    path = f"{item.path}.name"
    job = job_name(jobset, item.name, max(item.replicas - 1, 0))
    fix = "shorten metadata.name or this name"
    if len(job) > LABEL_MAX:
        return [invalid(path, job, f"{_length(job, 'the generated Job name')}; {fix}")]
    completions = item.job_spec.get("completions")
    if item.indexed and completions is not None:
        pod = pod_hostname(job, max(completions - 1, 0)) + "-" + "x" * (POD_NAME_SUFFIX_LENGTH - 1)
        if len(pod) > LABEL_MAX:
            return [invalid(path, pod, f"{_length(pod, 'the generated pod name')}; {fix}")]
    return _each(dns_label_1035_problems, job, path, "the generated Job name: ")


def _length(text: str, what: str) -> str:
    return f"{what} has {len(text)} characters, at most {LABEL_MAX} are allowed"


def _each(check: Callable[[str], list[str]], text: str, path: str, lead: str = "") -> list[Cause]:
    return [invalid(path, text, f"{lead}{problem}") for problem in check(text)]
