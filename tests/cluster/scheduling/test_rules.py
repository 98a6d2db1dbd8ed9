"""One rule of Kubernetes' scheduler at a time."""

import pytest

from jobset.api.meta import Object
from jobset.cluster.model.scheduling.cycle import Waiting, decide
from jobset.cluster.model.scheduling.pod import PodInfo
from jobset.cluster.model.scheduling.resources import pod_requests
from jobset.cluster.model.scheduling.state import Claim
from scheduling.builders import PREFERRED, REQUIRED, apart, cluster, node, place, pod, term, together


def container(cpu: str = "", restart: str = "", **resources: str) -> Object:
    asked = {**({"cpu": cpu} if cpu else {}), **resources}
    return {"name": "c", "resources": {"requests": asked}, **({"restartPolicy": restart} if restart else {})}


@pytest.mark.parametrize(
    ("spec", "cpu_milli"),
    [
        ({"containers": [container("1"), container("500m")]}, 1500),
        ({"containers": [container("1")], "initContainers": [container("3"), container("2")]}, 3000),
        ({"containers": [container("1")], "initContainers": [container("1", "Always"), container("1")]}, 2000),
        ({"containers": [container("1")], "initContainers": [container("3"), container("1", "Always")]}, 3000),
        ({"containers": [container("1")], "initContainers": [container("1", "Always"), container("3")]}, 4000),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "5"}}}, 5000),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}, 2000),
    ],
)
def test_what_a_pod_asks_for(spec: Object, cpu_milli: int) -> None:
    assert pod_requests(spec)["cpu"] == cpu_milli


def test_emptiest_node_first_then_by_name() -> None:
    state = cluster(node("b"), node("a"))
    pods = [pod(f"p{i}", requests={"cpu": "1"}) for i in range(5)]
    assert place(state, *pods) == ["a", "b", "a", "b", "a"]


def test_message_counts_every_reason_in_order() -> None:
    state = cluster(
        node("a", cpu="1"),
        node("b", cpu="1", memory="1Gi"),
        node("c", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]),
        {**node("d"), "spec": {"unschedulable": True}},
        node("e", {"zone": "z"}),
    )
    wanting = pod("p", requests={"cpu": "2", "memory": "2Gi"}, nodeSelector={"kubernetes.io/os": "linux"})
    for name in "ab":
        state.set_node(node(name, {"kubernetes.io/os": "linux"}, cpu="1", memory="1Gi" if name == "b" else "8Gi"))
    assert place(state, wanting) == [
        "0/5 nodes are available: 1 Insufficient memory, 1 node(s) didn't match Pod's node affinity/selector,"
        " 1 node(s) had untolerated taint {k: v}, 1 node(s) were unschedulable, 2 Insufficient cpu."
        " preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."
    ]


def test_no_nodes() -> None:
    assert place(cluster(), pod("p")) == ["no nodes available to schedule pods"]


def test_too_many_pods() -> None:
    state = cluster(node("a", pods="1"))
    first, second = place(state, pod("p"), pod("q"))
    assert first == "a"
    assert second.startswith("0/1 nodes are available: 1 Too many pods.")


TAINT = {"key": "gpu", "value": "yes", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "value": "yes", "effect": "NoExecute"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_tolerations(toleration: Object, tolerated: bool) -> None:
    state = cluster(node("a", taints=[TAINT]))
    assert (place(state, pod("p", tolerations=[toleration])) == ["a"]) is tolerated


def test_a_cordon_can_be_tolerated() -> None:
    state = cluster({**node("a"), "spec": {"unschedulable": True}})
    tolerant = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
    refused, taken = place(state, pod("p"), pod("q", tolerations=[tolerant]))
    assert "1 node(s) were unschedulable" in refused
    assert taken == "a"


def test_a_discouraging_taint_comes_last() -> None:
    state = cluster(node("a", taints=[{"key": "k", "effect": "PreferNoSchedule"}]), node("b", cpu="1"))
    assert place(state, *(pod(f"p{i}", requests={"cpu": "1"}) for i in range(2))) == ["b", "a"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"key": "gen", "operator": "In", "values": ["5"]}, {"b"}),
        ({"key": "gen", "operator": "NotIn", "values": ["5"]}, {"a", "c"}),
        ({"key": "gen", "operator": "Exists"}, {"a", "b"}),
        ({"key": "gen", "operator": "DoesNotExist"}, {"c"}),
        ({"key": "gen", "operator": "Gt", "values": ["3"]}, {"b"}),
        ({"key": "gen", "operator": "Lt", "values": ["5"]}, {"a"}),
    ],
)
def test_node_affinity(expression: Object, expected: set[str]) -> None:
    state = cluster(node("a", {"gen": "3"}, pods="1"), node("b", {"gen": "5"}, pods="1"), node("c", pods="1"))
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}
    found = place(state, *(pod(f"p{i}", affinity=affinity) for i in range(3)))
    assert {name for name in found if len(name) == 1} == expected


def test_node_affinity_by_name_and_empty_term() -> None:
    state = cluster(node("a"), node("b"))
    by_name = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]
    assert place(state, pod("p", affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": by_name}}})) == ["b"]
    (refused,) = place(state, pod("q", affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}))
    assert "2 node(s) didn't match Pod's node affinity/selector" in refused


def test_preferred_node_affinity() -> None:
    state = cluster(node("a"), node("b", {"disk": "ssd"}))
    preference = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    liking = {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": preference}]}}
    assert place(state, pod("p", affinity=liking)) == ["b"]


def test_host_ports() -> None:
    def serving(name: str, address: str = "", protocol: str = "TCP") -> Object:
        port = {"containerPort": 80, "hostPort": 8080, "protocol": protocol, "hostIP": address}
        return pod(name, containers=[{"name": "c", "ports": [port]}])

    state = cluster(node("a"))
    found = place(state, serving("p", "10.0.0.1"), serving("q", "10.0.0.2"), serving("r"), serving("s", "", "UDP"))
    assert [found[0], found[1], found[3]] == ["a", "a", "a"]
    assert "didn't have free ports for the requested pod ports" in found[2]


# ---------------------------------------------------------------- pods among pods

RACKS = [node(f"n{i}", {"rack": f"r{i // 2}"}) for i in range(4)]


def test_first_of_its_kind_then_all_together() -> None:
    pods = [pod(f"p{i}", {"app": "x"}, affinity=together(term("rack", {"app": "x"}))) for i in range(4)]
    assert {name[:2] for name in place(cluster(*RACKS), *pods)} == {"n0", "n1"}


def test_affinity_to_nobody_waits() -> None:
    (message,) = place(cluster(*RACKS), pod("p", affinity=together(term("rack", {"app": "x"}))))
    assert message.startswith("0/4 nodes are available: 4 node(s) didn't match pod affinity rules.")


def test_all_terms_must_be_met_by_one_pod() -> None:
    state = cluster(*RACKS)
    place(state, pod("a", {"app": "x"}), pod("b", {"role": "y"}))
    both = together(term("rack", {"app": "x"}), term("rack", {"role": "y"}))
    (message,) = place(state, pod("p", affinity=both))
    assert "pod affinity rules" in message


def test_anti_affinity_gives_each_its_own_rack() -> None:
    pods = [pod(f"p{i}", {"app": "x"}, affinity=apart(term("rack", {"app": "x"}))) for i in range(3)]
    first, second, third = place(cluster(*RACKS), *pods)
    assert {first, second} == {"n0", "n2"}
    assert third.startswith("0/4 nodes are available: 4 node(s) didn't match pod anti-affinity rules.")


def test_anti_affinity_binds_those_who_come_later() -> None:
    state = cluster(*RACKS[:2])
    place(state, pod("p", affinity=apart(term("rack", {"app": "x"}))))
    (message,) = place(state, pod("q", {"app": "x"}))
    assert "2 node(s) didn't satisfy existing pods anti-affinity rules" in message
    state.remove("uid-p")
    assert place(state, pod("r", {"app": "x"})) == ["n0"]


@pytest.mark.parametrize(
    ("where", "kept_apart"),
    [
        ({}, False),
        ({"namespaceSelector": {}}, True),
        ({"namespaces": ["other"]}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "red"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "blue"}}}, False),
    ],
)
def test_terms_see_other_namespaces_only_if_told(where: Object, kept_apart: bool) -> None:
    state = cluster(RACKS[0])
    state.namespaces["other"] = {"team": "red"}
    place(state, pod("o", {"app": "x"}, namespace="other"))
    (found,) = place(state, pod("p", affinity=apart(term("rack", {"app": "x"}, **where))))
    assert (found != "n0") is kept_apart


def test_match_label_keys_narrow_a_term() -> None:
    state = cluster(*RACKS)
    keyed = apart(term("rack", {"app": "x"}, matchLabelKeys=["rev"]))
    pods = [pod(f"p{i}", {"app": "x", "rev": str(i // 2)}, affinity=keyed) for i in range(4)]
    found = place(state, *pods)
    assert sorted(name[:1] for name in found) == ["n"] * 4
    assert {state.nodes[name].labels["rack"] for name in found[:2]} == {"r0", "r1"}


def test_preferred_affinity_draws_pods_together_and_apart() -> None:
    def wishing(kind: str, name: str, weight: int = 1) -> Object:
        wish = [{"weight": weight, "podAffinityTerm": term("rack", {"app": "x"})}]
        return pod(name, {"app": "x"}, affinity={kind: {PREFERRED: wish}})

    near = cluster(*RACKS)
    racks = {
        near.nodes[name].labels["rack"] for name in place(near, *(wishing("podAffinity", f"p{i}") for i in range(4)))
    }
    assert len(racks) == 1
    far = cluster(*RACKS)
    names = place(far, *(wishing("podAntiAffinity", f"p{i}") for i in range(4)))
    assert [far.nodes[name].labels["rack"] for name in names] == ["r0", "r1", "r0", "r1"]


def exclusive(job: str) -> Object:
    own = {"matchExpressions": [{"key": "job-key", "operator": "In", "values": [job]}]}
    others = {
        "matchExpressions": [
            {"key": "job-key", "operator": "Exists"},
            {"key": "job-key", "operator": "NotIn", "values": [job]},
        ]
    }
    return {
        **together({"topologyKey": "rack", "labelSelector": own, "namespaceSelector": {}}),
        **apart({"topologyKey": "rack", "labelSelector": others, "namespaceSelector": {}}),
    }


def test_exclusive_jobs_take_a_rack_each_and_the_next_waits_for_one() -> None:
    state = cluster(*RACKS)
    pods = [pod(f"{job}{i}", {"job-key": job}, affinity=exclusive(job)) for job in "abc" for i in range(2)]
    found = place(state, *pods)
    racks = [state.nodes[name].labels["rack"] for name in found[:4]]
    assert racks[0] == racks[1] != racks[2] == racks[3]
    assert "4 node(s) didn't match pod anti-affinity rules" in found[4]
    for name in ("a0", "a1"):
        state.remove(f"uid-{name}")
    again = place(state, *pods[4:])
    assert [state.nodes[name].labels["rack"] for name in again] == [racks[0]] * 2


# ---------------------------------------------------------------- spreading


def spreading(name: str, key: str = "rack", **more: object) -> Object:
    constraint = {
        "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}}, **more,
    }  # fmt: skip
    return pod(name, {"app": "x"}, topologySpreadConstraints=[constraint])


def test_spreading_keeps_racks_even_and_waits_when_it_cannot() -> None:
    state = cluster(node("a", {"rack": "r0"}, pods="9"), node("b", {"rack": "r1"}, pods="1"))
    found = place(state, *(spreading(f"p{i}") for i in range(4)))
    assert found[:3] == ["a", "b", "a"]
    assert "1 node(s) didn't match pod topology spread constraints" in found[3]
    assert "1 Too many pods" in found[3]


def test_spreading_needs_the_label_and_enough_domains() -> None:
    state = cluster(node("a", {"rack": "r0"}), node("b"))
    (found,) = place(state, spreading("p", minDomains=2, maxSkew=1))
    assert found == "a"
    (waits,) = place(state, spreading("q", minDomains=2, maxSkew=1))
    assert "1 node(s) didn't match pod topology spread constraints (missing required label)" in waits


def test_spreading_that_may_be_broken_is_only_a_wish() -> None:
    state = cluster(node("a", {"rack": "r0"}, cpu="64"), node("b", {"rack": "r1"}, pods="1"))
    found = place(state, *(spreading(f"p{i}", whenUnsatisfiable="ScheduleAnyway") for i in range(4)))
    assert sorted(found) == ["a", "a", "a", "b"]


def test_terminating_pods_do_not_count_for_spreading() -> None:
    state = cluster(node("a", {"rack": "r0"}), node("b", {"rack": "r1"}, taints=[{"key": "k", "effect": "NoSchedule"}]))
    assert place(state, spreading("p")) == ["a"]
    assert "topology spread" in place(state, spreading("q"))[0]
    state.mark_terminating("uid-p")
    assert place(state, spreading("q")) == ["a"]


# ---------------------------------------------------------------- claims


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (None, 'persistentvolumeclaim "data" not found'),
        (Claim(bound=False), "pod has unbound immediate PersistentVolumeClaims"),
        (Claim(bound=True, terminating=True), 'persistentvolumeclaim "data" is being deleted'),
    ],
)
def test_claims_must_be_there_and_bound(claim: Claim | None, message: str) -> None:
    state = cluster(node("a"))
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    if claim is not None:
        state.claims["default", "data"] = claim
    (found,) = place(state, pod("p", volumes=volumes))
    assert found.startswith(f"0/1 nodes are available: {message}.")
    state.claims["default", "data"] = Claim(bound=True)
    assert place(state, pod("p", volumes=volumes)) == ["a"]


# ---------------------------------------------------------------- preemption


def of_priority(name: str, priority: int, cpu: str = "2", **spec: object) -> Object:
    return pod(name, requests={"cpu": cpu}, priority=priority, **spec)


def waits_for(state: object, raw: Object) -> Waiting:
    decision = decide(state, PodInfo.of(raw))  # type: ignore[arg-type]
    assert isinstance(decision, Waiting)
    return decision


def test_preemption_takes_the_least_important_that_help() -> None:
    state = cluster(node("a", cpu="2"), node("b", cpu="2"), node("c", cpu="1"))
    place(state, of_priority("mid", 5), of_priority("low", 1))
    found = waits_for(state, of_priority("high", 9)).preemption
    assert found is not None
    assert (found.node, [victim.name for victim in found.victims]) == ("b", ["low"])


def test_preemption_spares_who_need_not_go() -> None:
    state = cluster(node("a", cpu="4"))
    place(state, of_priority("one", 1, "2"), of_priority("two", 2, "1"), of_priority("three", 3, "1"))
    found = waits_for(state, of_priority("high", 9, "2")).preemption
    assert found is not None
    assert [victim.name for victim in found.victims] == ["one"]


def test_preemption_does_not_serve_equals_the_modest_or_the_hopeless() -> None:
    state = cluster(node("a", cpu="2"))
    place(state, of_priority("low", 1))
    equal = waits_for(state, of_priority("equal", 1))
    assert equal.preemption is None
    assert equal.message.endswith("1 No preemption victims found for incoming pod.")
    modest = waits_for(state, of_priority("modest", 9, preemptionPolicy="Never"))
    assert modest.preemption is None
    assert "preemptionPolicy=Never" in modest.message
    huge = waits_for(state, of_priority("huge", 9, "3"))
    assert huge.preemption is None
    assert huge.message.endswith("1 Preemption is not helpful for scheduling.")


def test_preemption_frees_a_domain() -> None:
    state = cluster(*RACKS[:2])
    place(state, pod("p", {"app": "x"}))
    found = waits_for(state, pod("q", priority=1, affinity=apart(term("rack", {"app": "x"})))).preemption
    assert found is not None
    assert [victim.name for victim in found.victims] == ["p"]


def test_room_is_kept_for_the_nominated_and_victims_are_asked_once() -> None:
    state = cluster(node("a", cpu="2"))
    place(state, of_priority("low", 1))
    high = PodInfo.of(of_priority("high", 9))
    state.mark_terminating("uid-low")
    state.nominate(high, "a")
    again = decide(state, high)
    assert isinstance(again, Waiting)
    assert again.preemption is None
    state.remove("uid-low")
    assert "Insufficient cpu" in waits_for(state, of_priority("late", 3)).message
    assert place(state, of_priority("high", 9)) == ["a"]


# ---------------------------------------------------------------- change


def test_news_of_nodes_count_at_once() -> None:
    state = cluster(node("a", cpu="1"))
    asking = pod("p", requests={"cpu": "2"}, nodeSelector={"disk": "ssd"})
    assert "node affinity/selector" in place(state, asking)[0]
    state.set_node(node("a", {"disk": "ssd"}, cpu="1"))
    assert "Insufficient cpu" in place(state, asking)[0]
    state.set_node(node("a", {"disk": "ssd"}, cpu="2"))
    assert place(state, asking) == ["a"]
    state.remove_node("a")
    assert place(state, pod("q")) == ["no nodes available to schedule pods"]
    state.remove("uid-p")
    assert not state.nodes
