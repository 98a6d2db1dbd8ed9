"""Names, and what makes one illegal."""

import pytest

from jobset.api.jobset import Coordinator, from_object
from jobset.api.name_rules import (
    dns_label_1035_problems,
    dns_label_problems,
    dns_subdomain_problems,
    domain_prefixed_path_problems,
    label_value_problems,
    qualified_name_problems,
)
from jobset.core.features import FeatureGates, parse_feature_gates
from jobset.core.names import (
    claim_name,
    coordinator_endpoint,
    job_key,
    job_name,
    namespaced_job,
    pod_hostname,
    service_name,
)


def test_names_of_what_a_jobset_creates() -> None:
    job = job_name("train", "workers", 3)
    assert job == "train-workers-3"
    assert pod_hostname(job, 1) == "train-workers-3-1"
    assert claim_name("data", "train") == "data-train"
    assert namespaced_job("team", job) == "team_train-workers-3"
    assert coordinator_endpoint("train", Coordinator(replicated_job="driver"), "net") == "train-driver-0-0.net"


def test_job_key_as_the_original_writes_it() -> None:
    assert job_key("rec", "driver-workers-driver-0") == "122b25c171e750922aef17671fbc3130253db56c"


@pytest.mark.parametrize(
    ("network", "name"), [({}, "js"), ({"network": {}}, "js"), ({"network": {"subdomain": "net"}}, "net")]
)
def test_service_is_named_after_the_subdomain(network: dict[str, object], name: str) -> None:
    assert service_name(from_object({"metadata": {"name": "js"}, "spec": network})) == name


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (dns_label_problems, ["a", "9a", "a-b", "a" * 63], ["", "-a", "a-", "A", "a.b", "a_b", "a" * 64, "é", "a\n"]),
        (dns_label_1035_problems, ["a", "a9", "a-b"], ["", "9a", "-a", "A", "a" * 64]),
        (dns_subdomain_problems, ["a", "9a.b-c", "a." * 126 + "a"], ["", "a..b", ".a", "a.", "A", "a." * 127 + "a"]),
        (label_value_problems, ["", "a", "A_b.c-9", "a" * 63], ["-a", "a-", "a b", "é", "a" * 64]),
        (qualified_name_problems, ["a", "x.io/a", "A_b"], ["", "/a", "a/", "a/b/c", "X.io/a", "a b", "x/" + "a" * 64]),
        (domain_prefixed_path_problems, ["a.io/b", "a/b/c"], ["a", "/b", "a/", "A.io/b", "a.io/b c"]),
    ],
)
def test_name_rules(check: object, good: list[str], bad: list[str]) -> None:
    assert callable(check)
    for text in good:
        assert check(text) == [], text
    for text in bad:
        assert check(text), text


def test_gates_are_on_unless_turned_off() -> None:
    assert parse_feature_gates({}) == FeatureGates(True, True, True, True)
    assert parse_feature_gates({"RestartJob": False}) == FeatureGates(restart_job=False)
    with pytest.raises(ValueError, match="unknown feature gate 'Nope'; there are: ElasticJobSet"):
        parse_feature_gates({"Nope": True})
    with pytest.raises(ValueError, match="locked"):
        parse_feature_gates({"TLSOptions": False})
