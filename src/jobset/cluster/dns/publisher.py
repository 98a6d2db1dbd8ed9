"""Tells the runtime the names of each namespace when its Services or EndpointSlices change.

Changes are gathered for a moment that grows with the number of names, so that pods which become ready one by one cost
time in proportion to their number. A namespace's names are handed over whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from jobset.api.meta import Object
from jobset.api.resources import ENDPOINT_SLICES, SERVICES
from jobset.cluster.dns.names import names_of
from jobset.reconcile.informer import Key, SharedInformers
from jobset.reconcile.worker import Controller, Outcome

DELAY_S = 0.005
DELAY_S_PER_NAME = 0.0001
BY_NAMESPACE = "namespace"


class TakesNames(Protocol):
    """What this needs of a runtime."""

    async def set_names(self, namespace: str, names: Mapping[str, Sequence[str]]) -> None: ...


class NamePublisher:
    """Keys are namespaces."""

    def __init__(self, informers: SharedInformers, runtime: TakesNames) -> None:
        self._runtime = runtime
        self._informers = informers
        self._services = informers.get(SERVICES)
        self._slices = informers.get(ENDPOINT_SLICES)
        for informer in (self._services, self._slices):
            informer.add_index(BY_NAMESPACE, _namespace_of)
            informer.add_handler(self._changed)
        self._published: dict[str, dict[str, list[str]]] = {}
        self._controller = Controller("names", self._pass, {})

    async def run(self) -> None:
        await self._informers.wait_synced()
        await self._controller.run()

    def _changed(self, old: Object | None, new: Object | None) -> None:
        for changed in (old, new):
            if changed is not None:
                namespace = changed["metadata"].get("namespace", "")
                known = len(self._published.get(namespace, ()))
                self._controller.queue.add_after((namespace, ""), DELAY_S + DELAY_S_PER_NAME * known)
                return

    async def _pass(self, key: Key) -> Outcome:
        namespace, _ = key
        slices = self._slices.cache.by_index(BY_NAMESPACE, namespace)
        names = names_of(self._services.cache.by_index(BY_NAMESPACE, namespace), slices)
        if names != self._published.get(namespace, {}):
            await self._runtime.set_names(namespace, names)
            self._published[namespace] = names
        return Outcome()


def _namespace_of(obj: Object) -> Iterable[str]:
    yield obj["metadata"].get("namespace", "")
