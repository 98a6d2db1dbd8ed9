"""What the spec of a JobSet asks for, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from jobset.api.labels import EXCLUSIVE_TOPOLOGY
from jobset.api.meta import Object
from jobset.cli.columns import age

_ACTIONS = {
    "FailJobSet": "fail the JobSet",
    "RestartJobSet": "restart all Jobs",
    "RestartJobSetAndIgnoreMaxRestarts": "restart all Jobs, without counting it",
    "RestartJob": "restart the Job alone",
    "RestartJobAndIgnoreMaxRestarts": "restart the Job alone, without counting it",
}
_STRATEGIES = {
    "Recreate": "each Job is created anew as soon as the old one is gone",
    "BlockingRecreate": "no Job is created before all old ones are gone",
    "InPlaceRestart": "containers restart in their pods where they can",
}


def spec_lines(jobset: Object) -> list[str]:
    """One sentence a line; a replicated job's is followed by what is special about it."""
    spec = jobset["spec"]
    lines = []
    for replicated in spec.get("replicatedJobs") or ():
        lines.append(f"{replicated['name']}: {_size(replicated)}")
        lines += [f"  {line}" for line in _details(replicated)]
    return [*lines, *_policies(jobset, spec)]


def _size(replicated: Object) -> str:
    job = replicated["template"].get("spec") or {}
    replicas, pods = replicated.get("replicas", 1), job.get("parallelism", 1)
    completions = job.get("completions", pods)
    size = f"{_count(replicas, 'Job')} of {_count(pods, 'pod')}" + (" each" if replicas > 1 else "")
    return size if completions == pods else f"{size}, {completions} completions"


def _details(replicated: Object) -> Iterator[str]:
    job = replicated["template"].get("spec") or {}
    pod = (job.get("template") or {}).get("spec") or {}
    for dependency in replicated.get("dependsOn") or ():
        yield f"starts once {dependency['name']} is {dependency['status'].lower()}"
    for container in pod.get("containers") or ():
        command = " ".join([*(container.get("command") or ()), *(container.get("args") or ())])
        shown = f": {_short(command)}" if command else ""
        yield f"container {container['name']} ({container.get('image', 'no image')}){shown}"
        requests = (container.get("resources") or {}).get("requests") or {}
        limits = (container.get("resources") or {}).get("limits") or {}
        if asked := {**limits, **requests}:
            yield f"  asks for {', '.join(f'{name} {amount}' for name, amount in asked.items())}"
    if "backoffLimit" in job:
        yield f"fails after {_count(job['backoffLimit'], 'retry', 'retries')}" if job["backoffLimit"] else "no retries"
    annotations = (replicated["template"].get("metadata") or {}).get("annotations") or {}
    if topology := annotations.get(EXCLUSIVE_TOPOLOGY):
        yield f"each Job has a {topology} to itself"


def _policies(jobset: Object, spec: Object) -> Iterator[str]:
    annotations = jobset["metadata"].get("annotations") or {}
    if topology := annotations.get(EXCLUSIVE_TOPOLOGY):
        yield f"Each Job has a {topology} to itself."
    if (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder":
        yield "Replicated jobs start one after the other, each once the one before is ready."
    yield _success(spec.get("successPolicy") or {})
    yield from _failure(spec.get("failurePolicy"))
    network = spec.get("network") or {}
    if network.get("enableDNSHostnames"):
        yield f"Pods find each other as JOB-INDEX.{network.get('subdomain') or jobset['metadata']['name']}."
    if coordinator := spec.get("coordinator"):
        place = f"{coordinator['replicatedJob']}-{coordinator.get('jobIndex', 0)}-{coordinator.get('podIndex', 0)}"
        yield f"The coordinator is {jobset['metadata']['name']}-{place}."
    if spec.get("suspend"):
        yield "It is suspended."
    if spec.get("managedBy"):
        yield f"It is managed by {spec['managedBy']}."
    if (ttl := spec.get("ttlSecondsAfterFinished")) is not None:
        yield f"It is deleted {age(ttl)} after it has finished."


def _success(policy: Object) -> str:
    which = "all Jobs" if policy.get("operator", "All") == "All" else "any Job"
    targets = policy.get("targetReplicatedJobs") or ()
    return f"It is completed when {which}{' of ' + _listed(targets) if targets else ''} succeeded."


def _failure(policy: Object | None) -> Iterator[str]:
    if policy is None:
        yield "It fails when any Job fails."
        return
    restarts = policy.get("maxRestarts", 0)
    yield (
        f"When a Job fails, all are restarted, {_count(restarts, 'time')} at most."
        if restarts
        else ("It fails when any Job fails (maxRestarts 0).")
    )
    strategy = policy.get("restartStrategy", "Recreate")
    if restarts or policy.get("rules"):
        yield f"On a restart {_STRATEGIES.get(strategy, strategy)} ({strategy})."
    for index, rule in enumerate(policy.get("rules") or ()):
        conditions = []
        if reasons := rule.get("onJobFailureReasons"):
            conditions.append(f"the reason is {_listed(reasons, 'or')}")
        if patterns := rule.get("onJobFailureMessagePatterns"):
            conditions.append(f"the message matches {_listed(patterns, 'or')}")
        targets = rule.get("targetReplicatedJobs")
        whose = f"a Job of {_listed(targets, 'or')}" if targets else "a Job"
        when = f" and {' and '.join(conditions)}" if conditions else ""
        name = rule.get("name") or f"failurePolicyRule{index}"
        yield f"Rule {name}: when {whose} fails{when}, {_ACTIONS.get(rule['action'], rule['action'])}."


def _listed(words: list[str], last: str = "and") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def _short(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= 70 else f"{line[:69]}…"
