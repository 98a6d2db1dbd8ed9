"""What resuming makes of a Job's pod template."""

from typing import Any

import pytest
from played import World, jobset, rj

from jobset.core.plan import plan

GATE, OTHER_GATE = {"name": "g"}, {"name": "h"}
SHORT = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
LONG = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 50}


def template(metadata: Any = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": metadata or {}, "spec": {"containers": [{"name": "c"}], **spec}}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (template(), template(nodeSelector={"a": "1"}), {"nodeSelector": {"a": "1"}}),
        (template(nodeSelector={"a": "1"}), template(nodeSelector={"b": "2"}), {"nodeSelector": {"b": "2"}}),
        (template(nodeSelector={"a": "1"}), template(), {"nodeSelector": {}}),
        (template(tolerations=[LONG]), template(tolerations=[SHORT, LONG]), {"tolerations": [SHORT, LONG]}),
        (template(tolerations=[LONG]), template(tolerations=[SHORT]), {"tolerations": [SHORT]}),
        (template(tolerations=[LONG]), template(), {}),
        (template(schedulingGates=[GATE]), template(schedulingGates=[OTHER_GATE]), {"schedulingGates": [OTHER_GATE]}),
    ],
)
def test_the_pod_template_becomes_what_a_new_job_would_have(
    before: dict[str, Any], after: dict[str, Any], expected: dict[str, Any]
) -> None:
    world = World(jobset(rj("a", template=before), suspend=True))
    world.settle()
    world.edit(replicatedJobs=[rj("a", template=after)], suspend=False)
    world.settle()
    spec = world.jobs["js-a-0"]["spec"]["template"]["spec"]
    fields = ("nodeSelector", "tolerations", "schedulingGates")
    assert {field: spec[field] for field in fields if field in spec} == expected
    assert world.condition("Suspended") == ("False", "ResumeJobs")


def test_labels_of_users_follow_the_jobset_and_those_of_jobset_and_kubernetes_stay() -> None:
    world = World(jobset(rj("a", template=template({"labels": {"old": "1", "same": "1"}})), suspend=True))
    world.settle()
    own = dict(world.jobs["js-a-0"]["spec"]["template"]["metadata"]["labels"])
    kubernetes = {"job-name": "js-a-0", "batch.kubernetes.io/job-name": "js-a-0"}
    world.jobs["js-a-0"]["spec"]["template"]["metadata"]["labels"].update(kubernetes)
    changed = {"labels": {"new": "2", "same": "1", "jobset.sigs.k8s.io/job-index": "7"}, "annotations": {"note": "n"}}
    world.edit(replicatedJobs=[rj("a", template=template(changed))], suspend=False)
    world.settle()
    metadata = world.jobs["js-a-0"]["spec"]["template"]["metadata"]
    del own["old"]
    assert metadata["labels"] == {**own, **kubernetes, "new": "2"}
    assert metadata["annotations"]["note"] == "n"
    assert metadata["annotations"]["jobset.sigs.k8s.io/job-index"] == "0"


def test_what_the_node_selector_strategy_added_stays() -> None:
    asked = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack", "alpha.jobset.sigs.k8s.io/node-selector": "true"}
    world = World(jobset(rj("a", template=template(tolerations=[LONG])), annotations=asked, suspend=True))
    world.settle()
    world.edit(replicatedJobs=[rj("a", template=template(tolerations=[SHORT], nodeSelector={"a": "1"}))], suspend=False)
    world.settle()
    spec = world.jobs["js-a-0"]["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"a": "1", "alpha.jobset.sigs.k8s.io/namespaced-job": "ns_js-a-0"}
    assert spec["tolerations"][0] == SHORT
    assert spec["tolerations"][1]["key"] == "alpha.jobset.sigs.k8s.io/no-schedule"


def test_a_template_waits_until_the_job_is_seen_suspended_and_the_jobset_says_so() -> None:
    world = World(jobset(rj("a"), suspend=True))
    world.settle()
    world.jobs["js-a-0"]["status"] = {}
    world.edit(replicatedJobs=[rj("a", template=template(nodeSelector={"a": "1"}))], suspend=False)
    assert plan(world.observe()).actions == ()
    world.one_pass()
    assert world.condition("Suspended") == ("True", "SuspendedJobs")
    world.settle()
    assert world.condition("Suspended") == ("False", "ResumeJobs")


def test_jobs_that_finished_or_leave_are_not_suspended() -> None:
    world = World(jobset(rj("a", 3)))
    world.settle()
    world.succeed("js-a-0")
    world.jobs["js-a-1"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.edit(suspend=True)
    world.settle()
    suspended = [name for name, job in sorted(world.jobs.items()) if job["spec"]["suspend"]]
    assert suspended == ["js-a-2"]


def test_a_job_that_was_deleted_by_someone_else_while_suspended_is_created_suspended() -> None:
    world = World(jobset(rj("a"), suspend=True))
    world.settle()
    world.collect("js-a-0")
    world.settle()
    assert world.jobs["js-a-0"]["spec"]["suspend"] is True
