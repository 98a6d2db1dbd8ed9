"""The headless Service under which a JobSet's pods find each other by name (section 6.7). Pure."""

from __future__ import annotations

from jobset.api import labels
from jobset.api.jobset import JobSet, Network
from jobset.api.meta import Object
from jobset.api.resources import SERVICES
from jobset.core.actions import CreateObject, Why
from jobset.core.names import service_name, subdomain
from jobset.core.observed import Observed, is_controlled_by
from jobset.core.owner import owner_reference


def wants_dns(jobset: JobSet) -> bool:
    """Unset means yes."""
    network = jobset.spec.network or Network()
    return network.enable_dns_hostnames is not False


def pod_subdomain(jobset: JobSet) -> str:
    """The subdomain that every pod gets; empty to leave the template's."""
    return subdomain(jobset) if wants_dns(jobset) else ""


def create_service(observed: Observed) -> list[CreateObject]:
    """The Service, unless one of its name is there already."""
    if observed.service is not None or not wants_dns(observed.jobset):
        return []
    return [headless_service(observed.jobset)]


def headless_service(jobset: JobSet) -> CreateObject:
    network = jobset.spec.network or Network()
    body: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": service_name(jobset),
            "namespace": jobset.metadata.namespace,
            "ownerReferences": [owner_reference(jobset)],
        },
        "spec": {
            "clusterIP": "None",
            "selector": {labels.JOBSET_NAME: jobset.metadata.name},
            "publishNotReadyAddresses": network.publish_not_ready_addresses is not False,
        },
    }
    why = Why("CreateService", "headless Service that gives every pod its DNS name")
    return CreateObject(SERVICES, body, why, failure_event="HeadlessServiceCreationFailed")


def is_foreign(service: Object, jobset: JobSet) -> bool:
    """Whether a Service of our name is neither ours nor serves our pods (headless, selecting them by our labels)."""
    if is_controlled_by(service, jobset):
        return False
    spec = service.get("spec") or {}
    selector: dict[str, str] = spec.get("selector") or {}
    ours = {labels.JOBSET_NAME: jobset.metadata.name, labels.JOBSET_UID: jobset.metadata.uid}
    serves = spec.get("clusterIP") == "None" and bool(selector) and selector.items() <= ours.items()
    return not serves and not service["metadata"].get("deletionTimestamp")
