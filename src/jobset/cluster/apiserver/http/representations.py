"""An answer in the representation that was negotiated: the object, a list, their metadata only, or a Table. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from jobset.api.errors import NotAcceptable
from jobset.api.meta import Object
from jobset.cluster.apiserver.http.negotiation import Representation
from jobset.cluster.apiserver.http.tables import checked_include, partial_metadata, table
from jobset.cluster.model.kinds.kind import Kind


def list_object(kind: Kind, items: Sequence[Object], metadata: Object) -> Object:
    """As the service has it: every item says what it is. `Shaper` writes it as Kubernetes does."""
    return {
        "kind": f"{kind.resource.kind}List",
        "apiVersion": kind.resource.api_version,
        "metadata": metadata,
        "items": items,
    }


class Shaper:
    """Gives objects and lists the form that a client asked for. `now` is for ages in tables."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now

    def shape(self, kind: Kind | None, body: Object, chosen: Representation, include: str) -> Object:
        """`kind` is None for what is no object of a resource, such as a Status: that stays as it is. NotAcceptable."""
        items: Sequence[Object] | None = body.get("items") if kind is not None and "items" in body else None
        if kind is None:
            return body
        match chosen.form:
            case "":
                return body if items is None else _written_list(kind, body, items)
            case "Table":
                return self._table(kind, body, items, chosen, include)
            case "PartialObjectMetadata":
                if items is not None:
                    raise NotAcceptable("you requested PartialObjectMetadata, but the requested object is a list")
                return partial_metadata(body, chosen.form_api_version)
            case "PartialObjectMetadataList":
                if items is None:
                    raise NotAcceptable(
                        "you requested PartialObjectMetadataList, but the requested object is not a list"
                    )
                return {
                    "kind": chosen.form,
                    "apiVersion": chosen.form_api_version,
                    "metadata": body["metadata"],
                    "items": [partial_metadata(item, chosen.form_api_version) for item in items],
                }

    def event_object(self, kind: Kind, obj: Object, chosen: Representation, include: str, headings: bool) -> Object:
        """The object of a watch event. `headings`: whether a table tells its columns."""
        if chosen.form == "Table":
            metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            included = checked_include(include)
            api_version = chosen.form_api_version
            return table(kind, [obj], metadata, api_version, included, self._now(), headings=headings)
        return partial_metadata(obj, chosen.form_api_version) if chosen.form else obj

    def _table(
        self, kind: Kind, body: Object, items: Sequence[Object] | None, chosen: Representation, include: str
    ) -> Object:
        included = checked_include(include)
        if items is None:
            metadata = {"resourceVersion": body["metadata"].get("resourceVersion", "")}
            return table(kind, [body], metadata, chosen.form_api_version, included, self._now())
        return table(kind, items, body["metadata"], chosen.form_api_version, included, self._now())


def _written_list(kind: Kind, body: Object, items: Sequence[Object]) -> Object:
    """Items of built-in kinds do not repeat what they are; lists of custom resources always have `continue`."""
    if not kind.definition:
        return {**body, "metadata": {"continue": "", **body["metadata"]}}
    bare = [{key: value for key, value in item.items() if key not in ("kind", "apiVersion")} for item in items]
    return {**body, "items": bare}
