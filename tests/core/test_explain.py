"""Why a JobSet waits, and what it would create, in words."""

from played import World, failure_policy, jobset, rj

from jobset.core.explain import explain_objects, why_waiting
from jobset.core.features import FeatureGates


def why(world: World) -> list[str]:
    return why_waiting(world.observe())


def test_nothing_is_waited_for_when_all_run_or_all_is_over() -> None:
    world = World(jobset(rj("a", 2)))
    world.settle()
    world.ready()
    world.settle()
    assert why(world) == []
    world.succeed()
    world.settle()
    assert why(world) == []


def test_pods_that_are_not_ready() -> None:
    world = World(jobset(rj("a", pods=3)))
    world.settle()
    assert why(world) == ["Job js-a-0 has 0 of 3 pods ready (3 active)."]


def test_suspended_and_managed_elsewhere() -> None:
    suspended = World(jobset(rj("a"), suspend=True))
    assert why(suspended) == ["It is suspended (spec.suspend): its Jobs run no pods until it is resumed."]
    elsewhere = World(jobset(rj("a"), managedBy="example.com/x"))
    assert why(elsewhere) == ["It is managed by example.com/x, not by this controller."]


def test_in_order_startup() -> None:
    world = World(jobset(rj("a"), rj("b"), startupPolicy={"startupPolicyOrder": "InOrder"}))
    assert why(world) == ["Replicated job b waits for startupPolicy InOrder: a must be ready first."]


def test_an_attempt_that_is_not_gone_yet() -> None:
    world = World(jobset(rj("a", 2), failurePolicy=failure_policy(1, strategy="BlockingRecreate")))
    world.settle()
    world.fail("js-a-0")
    world.settle()
    world.collect("js-a-1")
    world.settle()
    assert why(world) == [
        "Job js-a-0 of an earlier attempt is still being deleted (0 pods left).",
        "No Job is created before all of the earlier attempt are gone (BlockingRecreate).",
    ]


def test_a_foreign_job() -> None:
    world = World(jobset(rj("a")))
    world.add_foreign_job("js-a-0")
    (reason,) = why(world)
    assert reason == (
        "Job js-a-0: not made by this JobSet, but of a name it needs; delete it, or give the JobSet another name."
    )


def test_every_object_with_its_reason() -> None:
    depends = [{"name": "a", "status": "Complete"}]
    objects = explain_objects(jobset(rj("a"), rj("b", 2, dependsOn=depends)), FeatureGates())
    assert [(each.resource.kind, each.body["metadata"]["name"], each.why.message) for each in objects] == [
        ("Service", "js", "headless Service that gives every pod its DNS name"),
        ("Job", "js-a-0", "job 0 of 1 of replicated job a, attempt 0"),
        ("Job", "js-b-0", "job 0 of 2 of replicated job b, attempt 0, once a is complete (dependsOn)"),
        ("Job", "js-b-1", "job 1 of 2 of replicated job b, attempt 0, once a is complete (dependsOn)"),
    ]


def test_in_order_and_suspended_objects() -> None:
    in_order = jobset(
        rj("a"), rj("b"), startupPolicy={"startupPolicyOrder": "InOrder"}, network={"enableDNSHostnames": False}
    )
    assert [each.why.message for each in explain_objects(in_order, FeatureGates())] == [
        "job 0 of 1 of replicated job a, attempt 0",
        "job 0 of 1 of replicated job b, attempt 0, once a is ready (startupPolicy InOrder)",
    ]
    suspended = jobset(rj("a"), suspend=True)
    assert explain_objects(suspended, FeatureGates())[1].why.message.endswith("attempt 0, suspended")
