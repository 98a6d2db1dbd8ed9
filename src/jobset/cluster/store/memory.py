"""The store in memory: a write counts as soon as it is made, and nothing is kept beyond the process."""

from __future__ import annotations

from jobset.api.meta import Object
from jobset.cluster.store.tables import Tables, versioned


class MemoryStore(Tables):
    """The store port (cluster/store/port.py)."""

    def put(self, resource: str, obj: Object) -> Object:
        return self.accept_put(resource, versioned(obj, self.revision + 1))

    def remove(self, resource: str, obj: Object) -> Object:
        return self.accept_removal(resource, versioned(obj, self.revision + 1))
