"""Keeps the EndpointSlices and Endpoints of Services with selectors in step with their pods.

A change of a pod marks the pod for the Services that select it; a pass over a Service looks at marked pods only and
writes only the slices that changed. Passes wait a little, longer for larger Services, so that thousands of pods that
become ready one by one cost a few writes a slice and not thousands.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct, field

from jobset.api.meta import Object
from jobset.api.resources import ENDPOINT_SLICES, ENDPOINTS, PODS, SERVICES
from jobset.client.port import Client
from jobset.cluster.model.endpoints import (
    OVER_CAPACITY,
    SERVICE_NAME,
    SLICE_CONTROLLER,
    SLICE_MANAGED_BY,
    SliceBook,
    endpoint_of,
    endpoints_object,
    selects_pods,
    slice_name,
    slice_object,
)
from jobset.core.actions import Action, CreateObject, DeleteObject, PatchObject, Plan, Why
from jobset.reconcile.apply import Applier, PassFailed
from jobset.reconcile.events import EventRecorder
from jobset.reconcile.informer import Key, SharedInformers, key_of
from jobset.reconcile.worker import Controller, Outcome

DELAY_S = 0.02
DELAY_S_PER_ENDPOINT = 0.0002
BY_SERVICE = "endpoints-service"
BY_NAMESPACE = "namespace"
WHY = Why("EndpointsChanged", "the pods behind the service changed")


class _Published(Struct):
    """What was written for a Service, and the pods to look at again. `spec` and `labels` are those it was made for."""

    uid: str
    spec: Object
    labels: Object
    book: SliceBook = field(default_factory=SliceBook)
    marked: dict[str, Key] = field(default_factory=dict)


class EndpointsController:
    def __init__(self, client: Client, informers: SharedInformers, now: Callable[[], datetime]) -> None:
        self._informers = informers
        self._pods = informers.get(PODS)
        self._services = informers.get(SERVICES)
        self._slices = informers.get(ENDPOINT_SLICES)
        self._endpoints = informers.get(ENDPOINTS)
        self._pods.add_index(BY_NAMESPACE, _namespace_of)
        self._slices.add_index(BY_SERVICE, _service_of)
        self._pods.add_handler(self._pod_changed)
        self._services.add_handler(self._service_changed)
        self._slices.add_handler(self._output_changed)
        self._endpoints.add_handler(self._output_changed)
        self._applier = Applier(client, SERVICES, EventRecorder(client, "endpoint-controller", now))
        self._published: dict[Key, _Published] = {}
        self._selecting: dict[tuple[str, str, str], dict[Key, Object]] = {}
        caches = {ENDPOINT_SLICES: self._slices.cache, ENDPOINTS: self._endpoints.cache}
        self._controller = Controller("endpoints", self._pass, caches)

    async def run(self) -> None:
        await self._informers.wait_synced()
        await self._controller.run()

    # ---------------------------------------------------------------- changes

    def _service_changed(self, old: Object | None, new: Object | None) -> None:
        key = key_of(new if new is not None else old)
        for service, selecting in ((old, False), (new, True)):
            if service is None or not selects_pods(service):
                continue
            services = self._selecting.setdefault(_first_pair(service), {})
            if selecting:
                services[key] = service["spec"]["selector"]
            else:
                services.pop(key, None)
        self._controller.queue.add(key)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and _looks(old) == _looks(new):
            return
        for pod in (old, new):
            if pod is None:
                continue
            for key in self._services_of(pod):
                published = self._published.get(key)
                if published is not None:
                    published.marked[pod["metadata"]["uid"]] = key_of(pod)
                    self._controller.queue.add_after(key, DELAY_S + DELAY_S_PER_ENDPOINT * len(published.book))

    def _services_of(self, pod: Object) -> list[Key]:
        namespace, labels = pod["metadata"].get("namespace", ""), pod["metadata"].get("labels") or {}
        return [
            key
            for pair in labels.items()
            for key, selector in self._selecting.get((namespace, *pair), {}).items()
            if selector.items() <= labels.items()
        ]

    def _output_changed(self, old: Object | None, new: Object | None) -> None:
        """Somebody removed what we wrote: write it again."""
        if new is not None or old is None:
            return
        namespace, name = key_of(old)
        service = (old["metadata"].get("labels") or {}).get(SERVICE_NAME, name)
        published = self._published.get((namespace, service))
        if published is not None and self._is_missed(published, old):
            del self._published[namespace, service]
            self._controller.queue.add((namespace, service))

    def _is_missed(self, published: _Published, old: Object) -> bool:
        if "addressType" not in old:
            return True
        service = {"metadata": {"name": old["metadata"]["labels"][SERVICE_NAME]}}
        return any(old["metadata"]["name"] == slice_name(service, number) for number in published.book.numbers())

    # ---------------------------------------------------------------- one pass

    async def _pass(self, key: Key) -> Outcome:
        service = self._services.cache.get(*key)
        if service is None or not selects_pods(service):
            self._published.pop(key, None)
            return await self._withdraw(key, service)
        published = self._published.get(key)
        fresh = published is None or not _is_current(published, service)
        if published is None or fresh:
            published = self._published[key] = _start(service)
            published.marked = {pod["metadata"]["uid"]: key_of(pod) for pod in self._selected(service)}
        marked, published.marked = published.marked, {}
        changed = self._look_at(marked, published.book, service)
        if not changed and not fresh:
            return Outcome()
        actions = self._writes(service, published.book, changed, fresh=fresh)
        try:
            return Outcome(await self._applier.apply(service, Plan(actions)))
        except PassFailed:
            del self._published[key]
            raise

    def _selected(self, service: Object) -> list[Object]:
        selector = service["spec"]["selector"].items()
        pods = self._pods.cache.by_index(BY_NAMESPACE, service["metadata"]["namespace"])
        return [pod for pod in pods if selector <= (pod["metadata"].get("labels") or {}).items()]

    def _look_at(self, marked: dict[str, Key], book: SliceBook, service: Object) -> set[int]:
        selector = service["spec"]["selector"].items()
        changed: set[int] = set()
        for uid, pod_key in marked.items():
            pod = self._pods.cache.get(*pod_key)
            endpoint = None
            if pod is not None and pod["metadata"]["uid"] == uid:
                chosen = selector <= (pod["metadata"].get("labels") or {}).items()
                endpoint = endpoint_of(pod, service) if chosen else None
            changed |= book.set(uid, endpoint)
        return changed

    def _writes(self, service: Object, book: SliceBook, changed: set[int], *, fresh: bool) -> tuple[Action, ...]:
        namespace, name = key_of(service)
        actions = [self._write_slice(service, book, number) for number in sorted(changed)]
        if fresh:
            kept = {slice_name(service, number) for number in changed}
            actions.extend(
                _delete(old)
                for old in self._slices.cache.by_index(BY_SERVICE, f"{namespace}/{name}")
                if old["metadata"]["name"] not in kept
            )
        actions.append(self._write_endpoints(service, book))
        return tuple(action for action in actions if action is not None)

    def _write_slice(self, service: Object, book: SliceBook, number: int) -> Action | None:
        namespace, name = service["metadata"]["namespace"], slice_name(service, number)
        current = self._slices.cache.get(namespace, name)
        slice_ = book.slice(number)
        if slice_ is None:
            return None if current is None else _delete(current)
        wanted = slice_object(service, slice_)
        if current is None:
            return CreateObject(ENDPOINT_SLICES, wanted, WHY)
        if current["addressType"] != wanted["addressType"]:
            return _delete(current)
        lists = {part: wanted.get(part) or [] for part in ("endpoints", "ports")}
        patch: Object = {part: items for part, items in lists.items() if (current.get(part) or []) != items}
        if (current["metadata"].get("labels") or {}) != wanted["metadata"]["labels"]:
            patch["metadata"] = {"labels": wanted["metadata"]["labels"]}
        return PatchObject(ENDPOINT_SLICES, namespace, name, patch, WHY) if patch else None

    def _write_endpoints(self, service: Object, book: SliceBook) -> Action | None:
        namespace, name = key_of(service)
        wanted = endpoints_object(service, book.endpoints())
        current = self._endpoints.cache.get(namespace, name)
        if current is None:
            return CreateObject(ENDPOINTS, wanted, WHY)
        patch: Object = {}
        if (current.get("subsets") or []) != wanted["subsets"]:
            over = wanted["metadata"]["annotations"].get(OVER_CAPACITY)
            patch = {"subsets": wanted["subsets"]}
            if (current["metadata"].get("annotations") or {}).get(OVER_CAPACITY) != over:
                patch["metadata"] = {"annotations": {OVER_CAPACITY: over}}
        return PatchObject(ENDPOINTS, namespace, name, patch, WHY) if patch else None

    async def _withdraw(self, key: Key, service: Object | None) -> Outcome:
        """The Service is gone or names its own endpoints: ours go; the garbage collector would be slower."""
        if service is not None:
            return Outcome()
        current = self._endpoints.cache.get(*key)
        slices = self._slices.cache.by_index(BY_SERVICE, "/".join(key))
        stale = [*slices, *([current] if current is not None else [])]
        root = {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": key[0], "name": key[1]}}
        return Outcome(await self._applier.apply(root, Plan(tuple(_delete(old) for old in stale))))


def _delete(obj: Object) -> DeleteObject:
    resource = ENDPOINT_SLICES if "addressType" in obj else ENDPOINTS
    namespace, name = key_of(obj)
    return DeleteObject(resource, namespace, name, obj["metadata"]["uid"], WHY)


def _start(service: Object) -> _Published:
    metadata = service["metadata"]
    return _Published(metadata["uid"], service["spec"], metadata.get("labels") or {})


def _is_current(published: _Published, service: Object) -> bool:
    metadata = service["metadata"]
    made_for = (published.uid, published.spec, published.labels)
    return made_for == (metadata["uid"], service["spec"], metadata.get("labels") or {})


def _first_pair(service: Object) -> tuple[str, str, str]:
    """Where to find the Service by its pods' labels: under one pair of its selector."""
    return (service["metadata"]["namespace"], *min(service["spec"]["selector"].items()))


def _namespace_of(obj: Object) -> tuple[str, ...]:
    return (obj["metadata"].get("namespace", ""),)


def _service_of(slice_: Object) -> tuple[str, ...]:
    """namespace/service of a slice that this controller manages."""
    labels = slice_["metadata"].get("labels") or {}
    if labels.get(SLICE_MANAGED_BY) != SLICE_CONTROLLER or SERVICE_NAME not in labels:
        return ()
    return (f"{slice_['metadata']['namespace']}/{labels[SERVICE_NAME]}",)


def _looks(pod: Object) -> tuple[object, ...]:
    """What of a pod matters to a Service."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())
    ended = status.get("phase") in ("Succeeded", "Failed")
    uid, labels = metadata["uid"], metadata.get("labels")
    return uid, labels, status.get("podIP"), ready, ended, "deletionTimestamp" in metadata
