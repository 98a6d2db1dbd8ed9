"""Random small clusters and pods, against the rules read out slowly (oracle.py): every placement is allowed, no pod
waits that could be placed, nothing depends on what was asked before, and equal inputs give equal decisions."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jobset.api.meta import Object
from jobset.cluster.model.scheduling.cycle import Placed, decide
from jobset.cluster.model.scheduling.pod import PodInfo
from jobset.cluster.model.scheduling.state import ClusterState
from scheduling.builders import REQUIRED
from scheduling.oracle import Oracle

NAMESPACES = {"one": {"team": "red"}, "two": {"team": "blue"}}
KEYS = ["rack", "zone", "kubernetes.io/hostname"]

labels = st.fixed_dictionaries({}, optional={"app": st.sampled_from("xy"), "tier": st.sampled_from("ab")})
selectors = st.one_of(
    labels.map(lambda chosen: {"matchLabels": chosen}),
    st.sampled_from(["In", "NotIn"]).map(
        lambda operator: {"matchExpressions": [{"key": "app", "operator": operator, "values": ["x"]}]}
    ),
    st.sampled_from(["Exists", "DoesNotExist"]).map(
        lambda operator: {"matchExpressions": [{"key": "app", "operator": operator}]}
    ),
)
terms = st.builds(
    lambda key, selector, where: {"topologyKey": key, "labelSelector": selector, **where},
    st.sampled_from(KEYS),
    selectors,
    st.sampled_from(
        [
            {},
            {},
            {"namespaces": ["two"]},
            {"namespaceSelector": {}},
            {"namespaceSelector": {"matchLabels": {"team": "red"}}},
        ]
    ),
)
spreads = st.builds(
    lambda key, selector, skew, least: {
        "topologyKey": key, "labelSelector": selector, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule",
        **({"minDomains": least} if least else {}),
    },
    st.sampled_from(KEYS), selectors, st.integers(1, 2), st.sampled_from([0, 0, 2, 3]),
)  # fmt: skip
taints = st.lists(st.sampled_from([{"key": "k", "effect": e} for e in ("NoSchedule", "PreferNoSchedule")]), max_size=1)


@st.composite
def nodes(draw: st.DrawFn) -> list[Object]:
    found = []
    for number in range(draw(st.integers(1, 5))):
        name = f"n{number}"
        topology = draw(
            st.fixed_dictionaries({}, optional={"rack": st.sampled_from("ab"), "zone": st.sampled_from("uv")})
        )
        offered = {"cpu": str(draw(st.integers(1, 4))), "memory": "8Gi", "pods": str(draw(st.integers(1, 4)))}
        spec: Object = {"taints": draw(taints), **({"unschedulable": True} if draw(st.integers(0, 9)) == 0 else {})}
        found.append(
            {
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **topology}},
                "spec": spec,
                "status": {"allocatable": offered},
            }
        )
    return found


@st.composite
def pods(draw: st.DrawFn, number: int = 0) -> Object:
    cpu = draw(st.sampled_from([0, 1, 1, 2]))
    container: Object = {"resources": {"requests": {"cpu": str(cpu)}}} if cpu else {}
    if draw(st.integers(0, 4)) == 0:
        container["ports"] = [{"containerPort": 1, "hostPort": draw(st.integers(1, 2))}]
    affinity: Object = {}
    if among := draw(st.lists(terms, max_size=2)):
        affinity["podAffinity"] = {REQUIRED: among}
    if apart := draw(st.lists(terms, max_size=2)):
        affinity["podAntiAffinity"] = {REQUIRED: apart}
    if draw(st.booleans()):
        operator = draw(st.sampled_from(["In", "NotIn", "Exists"]))
        values = {} if operator == "Exists" else {"values": [draw(st.sampled_from("ab"))]}
        expression = {"key": "rack", "operator": operator, **values}
        affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    spec: dict[str, Any] = {"containers": [container], "affinity": draw(st.sampled_from([{}, affinity]))}
    if draw(st.integers(0, 2)) == 0:
        spec["topologySpreadConstraints"] = draw(st.lists(spreads, min_size=1, max_size=2))
    if draw(st.integers(0, 2)) == 0:
        spec["tolerations"] = [{"key": "k", "operator": "Exists"}]
    if draw(st.integers(0, 3)) == 0:
        spec["nodeSelector"] = {"zone": draw(st.sampled_from("uv"))}
    return {
        "metadata": {"name": f"p{number}", "uid": f"u{number}", "namespace": draw(st.sampled_from(["one", "two"])),
                     "labels": draw(labels)},
        "spec": spec,
    }  # fmt: skip


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[list[Object], list[Object], list[int]]:
    """Nodes, pods, and after which pods the oldest placed one leaves."""
    count = draw(st.integers(1, 10))
    leaving = draw(st.lists(st.integers(0, count - 1), max_size=3))
    return draw(nodes()), [draw(pods(number)) for number in range(count)], leaving


def fresh(cluster: list[Object], placed: list[tuple[Object, str]]) -> ClusterState:
    state = ClusterState()
    state.namespaces.update(NAMESPACES)
    for node in cluster:
        state.set_node(node)
    for pod, name in placed:
        state.place(PodInfo.of(pod), name)
    return state


@settings(max_examples=300, deadline=None)
@given(scenarios())
def test_decisions_agree_with_the_rules(scenario: tuple[list[Object], list[Object], list[int]]) -> None:
    cluster, arriving, leaving = scenario
    oracle = Oracle(cluster, NAMESPACES)
    state = fresh(cluster, [])
    for number, raw in enumerate(arriving):
        pod = PodInfo.of(raw)
        decision = decide(state, pod)
        allowed = oracle.allowed(raw)
        assert decision == decide(fresh(cluster, oracle.placed), pod), "what was asked before must not matter"
        if isinstance(decision, Placed):
            assert decision.node in allowed
            state.place(pod, decision.node)
            oracle.placed.append((raw, decision.node))
        else:
            assert allowed == [], decision.message
        if number in leaving and oracle.placed:
            gone, _ = oracle.placed.pop(0)
            state.remove(gone["metadata"]["uid"])


@settings(max_examples=150, deadline=None)
@given(scenarios(), st.integers(0, 3))
def test_preemption_helps_and_takes_no_more_than_needed(
    scenario: tuple[list[Object], list[Object], list[int]], important: int
) -> None:
    cluster, arriving, _ = scenario
    placed: list[tuple[Object, str]] = []
    for number, raw in enumerate(arriving):
        raw["spec"]["priority"] = 1 if number % 4 == important else 0
        state = fresh(cluster, placed)
        decision = decide(state, PodInfo.of(raw))
        if isinstance(decision, Placed):
            placed.append((raw, decision.node))
        elif decision.preemption is not None:
            names = {victim.uid for victim in decision.preemption.victims}
            assert names
            assert all(victim.priority < raw["spec"]["priority"] for victim in decision.preemption.victims)

            def fits_without(gone: set[str], raw: Object = raw, at: str = decision.preemption.node) -> bool:
                oracle = Oracle(cluster, NAMESPACES)
                oracle.placed = [(pod, node) for pod, node in placed if pod["metadata"]["uid"] not in gone]
                return oracle.problem(raw, at) is None

            assert fits_without(names)
