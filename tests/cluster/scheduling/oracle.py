"""Kubernetes' rules read out slowly: every rule over all nodes and all pods, from raw objects, with nothing remembered.

Independent of the scheduler's model on purpose: it shares only quantities and label selectors with it.
"""

from __future__ import annotations

from jobset.api.meta import Object
from jobset.api.quantity import parse_quantity
from jobset.api.selectors import LabelSelector, Requirement, label_selector_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Oracle:
    def __init__(self, nodes: list[Object], namespaces: dict[str, dict[str, str]]) -> None:
        self.nodes = {node["metadata"]["name"]: node for node in nodes}
        self.namespaces = namespaces
        self.placed: list[tuple[Object, str]] = []

    def allowed(self, pod: Object) -> list[str]:
        """The names of the nodes that may take the pod now."""
        return sorted(name for name in self.nodes if self.problem(pod, name) is None)

    def problem(self, pod: Object, name: str) -> str | None:
        node = self.nodes[name]
        for wrong, text in (
            (node["spec"].get("unschedulable"), "cordon"),
            (self._taints(pod, node), "taint"),
            (not self._selected(pod, node), "selector"),
            (self._full(pod, node), "room"),
            (self._spread(pod, node), "spread"),
            (not self._together(pod, node), "affinity"),
            (self._apart(pod, node), "anti-affinity"),
            (self._unwanted(pod, node), "existing anti-affinity"),
        ):
            if wrong:
                return text
        return None

    def on(self, name: str) -> list[Object]:
        return [pod for pod, node in self.placed if node == name]

    def _taints(self, pod: Object, node: Object) -> bool:
        return any(
            taint["effect"] != "PreferNoSchedule"
            and not any(
                t.get("key") in (None, taint["key"])
                and (t.get("operator") == "Exists" or t.get("value") == taint.get("value"))
                and t.get("effect") in (None, taint["effect"])
                for t in pod["spec"].get("tolerations", ())
            )
            for taint in node["spec"].get("taints", ())
        )

    def _selected(self, pod: Object, node: Object) -> bool:
        labels = node["metadata"]["labels"]
        if any(labels.get(k) != v for k, v in pod["spec"].get("nodeSelector", {}).items()):
            return False
        required = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED)
        if required is None:
            return True
        return any(
            all(
                Requirement(e["key"], e["operator"], frozenset(e.get("values", ()))).matches(labels)
                for e in term["matchExpressions"]
            )
            for term in required["nodeSelectorTerms"]
        )

    def _full(self, pod: Object, node: Object) -> bool:
        name, offered = node["metadata"]["name"], node["status"]["allocatable"]
        there = self.on(name)
        if len(there) + 1 > int(offered["pods"]):
            return True
        wanted_ports = _ports(pod)
        if any(wanted_ports & _ports(other) for other in there):
            return True
        for resource in _asked(pod):
            total = sum(_asked(other).get(resource, 0) for other in there) + _asked(pod)[resource]
            if total > parse_quantity(offered.get(resource, 0)):
                return True
        return False

    def _selects(self, term: Object, owner: Object, other: Object) -> bool:
        selector = label_selector_of(term.get("labelSelector"))
        if selector is None or not selector.matches(other["metadata"]["labels"]):
            return False
        names, by_label = term.get("namespaces"), label_selector_of(term.get("namespaceSelector"))
        namespace = other["metadata"]["namespace"]
        if not names and by_label is None:
            return bool(namespace == owner["metadata"]["namespace"])
        return namespace in (names or ()) or (
            by_label is not None and by_label.matches(self.namespaces.get(namespace, {}))
        )

    def _terms(self, pod: Object, kind: str) -> list[Object]:
        return list(pod["spec"].get("affinity", {}).get(kind, {}).get(REQUIRED, ()))

    def _together(self, pod: Object, node: Object) -> bool:
        terms = self._terms(pod, "podAffinity")
        labels = node["metadata"]["labels"]
        if any(term["topologyKey"] not in labels for term in terms):
            return False
        company = [
            (other, at) for other, at in self.placed if terms and all(self._selects(t, pod, other) for t in terms)
        ]
        anywhere = any(t["topologyKey"] in self.nodes[at]["metadata"]["labels"] for t in terms for _, at in company)
        if not anywhere and all(self._selects(term, pod, pod) for term in terms):
            return True
        return all(
            any(
                self.nodes[at]["metadata"]["labels"].get(t["topologyKey"]) == labels[t["topologyKey"]]
                for _, at in company
            )
            for t in terms
        )

    def _apart(self, pod: Object, node: Object) -> bool:
        return any(
            self._selects(term, pod, other) and self._same_domain(term["topologyKey"], node, self.nodes[at])
            for term in self._terms(pod, "podAntiAffinity")
            for other, at in self.placed
        )

    def _unwanted(self, pod: Object, node: Object) -> bool:
        return any(
            self._selects(term, other, pod) and self._same_domain(term["topologyKey"], node, self.nodes[at])
            for other, at in self.placed
            for term in self._terms(other, "podAntiAffinity")
        )

    def _same_domain(self, key: str, one: Object, other: Object) -> bool:
        labels = one["metadata"]["labels"]
        return key in labels and labels[key] == other["metadata"]["labels"].get(key)

    def _spread(self, pod: Object, node: Object) -> bool:
        constraints = pod["spec"].get("topologySpreadConstraints", ())
        keys = [constraint["topologyKey"] for constraint in constraints]
        for constraint in constraints:
            key = constraint["topologyKey"]
            if key not in node["metadata"]["labels"]:
                return True
            selector = label_selector_of(constraint["labelSelector"]) or LabelSelector()
            counts: dict[str, int] = {}
            for name, other in self.nodes.items():
                labels = other["metadata"]["labels"]
                if all(k in labels for k in keys) and self._selected(pod, other):
                    matching = [
                        p
                        for p in self.on(name)
                        if p["metadata"]["namespace"] == pod["metadata"]["namespace"]
                        and selector.matches(p["metadata"]["labels"])
                    ]
                    counts[labels[key]] = counts.get(labels[key], 0) + len(matching)
            least = min(counts.values(), default=0) if len(counts) >= constraint.get("minDomains", 1) else 0
            itself = selector.matches(pod["metadata"]["labels"])
            if counts.get(node["metadata"]["labels"][key], 0) + itself - least > constraint["maxSkew"]:
                return True
        return False


def _ports(pod: Object) -> set[int]:
    return {port["hostPort"] for c in pod["spec"]["containers"] for port in c.get("ports", ())}


def _asked(pod: Object) -> dict[str, object]:
    return {
        name: parse_quantity(quantity)
        for container in pod["spec"]["containers"]
        for name, quantity in container.get("resources", {}).get("requests", {}).items()
    }
