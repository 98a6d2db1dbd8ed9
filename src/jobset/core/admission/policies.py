"""Whether the policies of a JobSet fit its replicated jobs: dependsOn, success, failure, coordinator. Pure.

Rules 1, 2, 7, 11 to 24 of section 5.1. Beyond the original: no job may depend on itself, and message patterns must be
regular expressions that the controller can use.
"""

from __future__ import annotations

import re

import re2

from jobset.api import labels
from jobset.api.errors import Cause
from jobset.api.field_errors import duplicate, forbidden, invalid, not_found, not_supported, suggestion
from jobset.api.jobset import Coordinator
from jobset.api.jobset_schema import INT32, MAX_JOB_RESTARTS_TRACKED
from jobset.api.meta import Object
from jobset.api.name_rules import label_value_problems
from jobset.core.admission.replicated import Replicated, section
from jobset.core.features import FeatureGates
from jobset.core.names import coordinator_endpoint

JOB_FAILURE_REASONS = (
    "BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy",
)  # fmt: skip
RULE_NAME_MAX = 128
RULE_NAME = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_SINGLE_JOB_ACTIONS = frozenset({"RestartJob", "RestartJobAndIgnoreMaxRestarts"})


def product_problems(replicated: list[Replicated]) -> list[Cause]:
    return [
        invalid(
            f"{item.path}.replicas",
            item.replicas,
            f"replicas times parallelism must not exceed {INT32}, for replicated job {item.name!r} it is "
            f"{item.replicas * item.job_spec.get('parallelism', 1)}",
        )
        for item in replicated
        if item.replicas * item.job_spec.get("parallelism", 1) > INT32
    ]


def dependency_problems(replicated: list[Replicated]) -> list[Cause]:
    """A job may depend on those listed before it only, which also rules out cycles."""
    causes = []
    names = {item.name for item in replicated}
    earlier: set[str] = set()
    for position, item in enumerate(replicated):
        dependencies = item.raw.get("dependsOn")
        if position == 0 and dependencies is not None:
            detail = "the first replicated job has none before it to depend on; move it down or drop dependsOn"
            causes.append(forbidden(f"{item.path}.dependsOn", detail))
        elif dependencies:
            for index, dependency in enumerate(dependencies):
                name, path = dependency.get("name", ""), f"{item.path}.dependsOn[{index}].name"
                if name == item.name:
                    causes.append(invalid(path, name, f"replicated job {name!r} cannot depend on itself"))
                elif name not in names:
                    causes.append(not_found(path, name, _among(name, names)))
                elif name not in earlier:
                    detail = f"replicated job {item.name!r} can depend only on those listed before it; move {name!r} up"
                    causes.append(invalid(path, name, detail))
        earlier.add(item.name)
    return causes


def success_policy_problems(spec: Object, replicated: list[Replicated]) -> list[Cause]:
    targets = section(spec, "successPolicy").get("targetReplicatedJobs", ())
    return _unknown_targets(targets, "spec.successPolicy", replicated)


def failure_policy_problems(spec: Object, replicated: list[Replicated], gates: FeatureGates) -> list[Cause]:
    policy = section(spec, "failurePolicy")
    rules = policy.get("rules", ())
    causes = _strategy_problems(policy, replicated, gates)
    for index, rule in enumerate(rules):
        causes += _rule_problems(rule, f"spec.failurePolicy.rules[{index}]", replicated, gates)
    causes += _duplicate_rule_names(rules)
    if gates.restart_job and any(rule.get("action") in _SINGLE_JOB_ACTIONS for rule in rules):
        causes += [
            invalid(
                f"{item.path}.replicas",
                item.replicas,
                f"must not exceed {MAX_JOB_RESTARTS_TRACKED} when a failure policy rule restarts single Jobs "
                "(RestartJob, RestartJobAndIgnoreMaxRestarts)",
            )
            for item in replicated
            if item.replicas > MAX_JOB_RESTARTS_TRACKED
        ]
    return causes


def _strategy_problems(policy: Object, replicated: list[Replicated], gates: FeatureGates) -> list[Cause]:
    if policy.get("restartStrategy") != "InPlaceRestart":
        return []
    if not gates.in_place_restart:
        detail = "restart strategy InPlaceRestart needs the feature gate InPlaceRestart"
        return [forbidden("spec.failurePolicy.restartStrategy", detail)]
    return [cause for item in replicated for cause in _in_place_problems(item)]


def _in_place_problems(item: Replicated) -> list[Cause]:
    job, path, causes = item.job_spec, item.job_spec_path, []
    if job.get("backoffLimit") != INT32:
        detail = f"must be set to {INT32} (MaxInt32) with restart strategy InPlaceRestart"
        causes.append(invalid(f"{path}.backoffLimit", job.get("backoffLimit"), detail))
    if job.get("podReplacementPolicy") != "Failed":
        detail = "must be set to Failed with restart strategy InPlaceRestart"
        causes.append(invalid(f"{path}.podReplacementPolicy", job.get("podReplacementPolicy"), detail))
    completions = job.get("completions")
    if completions is None or completions != job.get("parallelism"):
        detail = "completions and parallelism must be set and equal with restart strategy InPlaceRestart"
        causes.append(invalid(f"{path}.completions", completions, detail))
    return causes


def _rule_problems(rule: Object, path: str, replicated: list[Replicated], gates: FeatureGates) -> list[Cause]:
    causes = []
    if rule.get("action") in _SINGLE_JOB_ACTIONS and not gates.restart_job:
        causes.append(forbidden(f"{path}.action", f"action {rule['action']} needs the feature gate RestartJob"))
    name = rule.get("name", "")
    if not 1 <= len(name.encode()) <= RULE_NAME_MAX:
        detail = f"has {len(name.encode())} bytes, must have 1 to {RULE_NAME_MAX}"
        causes.append(invalid(f"{path}.name", name, detail))
    elif not re.fullmatch(RULE_NAME, name):
        detail = (
            "must start with a letter, go on with letters, digits, '_', ',' or ':', and end with a letter, digit or '_'"
        )
        causes.append(invalid(f"{path}.name", name, detail))
    causes += _unknown_targets(rule.get("targetReplicatedJobs", ()), path, replicated)
    causes += [
        not_supported(f"{path}.onJobFailureReasons[{index}]", reason, JOB_FAILURE_REASONS)
        for index, reason in enumerate(rule.get("onJobFailureReasons", ()))
        if reason not in JOB_FAILURE_REASONS
    ]
    for index, pattern in enumerate(rule.get("onJobFailureMessagePatterns", ())):
        if problem := pattern_problem(pattern):
            causes.append(invalid(f"{path}.onJobFailureMessagePatterns[{index}]", pattern, problem))
    return causes


def pattern_problem(pattern: str) -> str:
    """What is wrong with an RE2 regular expression; empty when nothing is."""
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        text = error.args[0].decode(errors="replace") if isinstance(error, re2.error) else "it is not Unicode text"
        _, _, fragment = text.partition(": ")
        position = pattern.find(fragment) if fragment else -1
        where = f" at character {position + 1}" if position >= 0 else ""
        return f"is not a regular expression in RE2 syntax: {text}{where}"
    return ""


def _duplicate_rule_names(rules: tuple[Object, ...] | list[Object]) -> list[Cause]:
    seen: dict[str, int] = {}
    causes = []
    for index, rule in enumerate(rules):
        name = rule.get("name", "")
        if name and seen.setdefault(name, index) != index:
            causes.append(duplicate(f"spec.failurePolicy.rules[{index}].name", name))
    return causes


def coordinator_problems(jobset: str, spec: Object, replicated: list[Replicated]) -> list[Cause]:
    """The first problem only: each further one would follow from it."""
    coordinator = spec.get("coordinator")
    if coordinator is None:
        return []
    name = coordinator.get("replicatedJob", "")
    job_index, pod_index = coordinator.get("jobIndex", 0), coordinator.get("podIndex", 0)
    item = next((item for item in replicated if item.name == name), None)
    if item is None:
        return [not_found("spec.coordinator.replicatedJob", name, _among(name, {each.name for each in replicated}))]
    if not 0 <= job_index < item.replicas:
        detail = f"replicated job {name!r} has {item.replicas} replicas, counted from 0"
        return [invalid("spec.coordinator.jobIndex", job_index, detail)]
    completions = item.job_spec.get("completions")
    if not item.indexed or completions is None:
        detail = f"the Jobs of {name!r} must have completionMode Indexed and completions set"
        return [invalid("spec.coordinator.replicatedJob", name, detail)]
    if not 0 <= pod_index < completions:
        detail = f"the Jobs of {name!r} have {completions} completions, counted from 0"
        return [invalid("spec.coordinator.podIndex", pod_index, detail)]
    subdomain = section(spec, "network").get("subdomain") or jobset
    endpoint = coordinator_endpoint(
        jobset, Coordinator(replicated_job=name, job_index=job_index, pod_index=pod_index), subdomain
    )
    return [
        invalid(
            "spec.coordinator",
            endpoint,
            f"the coordinator's address becomes the label {labels.COORDINATOR} and {problem}; shorten metadata.name, "
            "the replicated job's name or spec.network.subdomain",
        )
        for problem in label_value_problems(endpoint)
    ]


def _unknown_targets(targets: list[str] | tuple[str, ...], path: str, replicated: list[Replicated]) -> list[Cause]:
    names = {item.name for item in replicated}
    return [
        not_found(f"{path}.targetReplicatedJobs[{index}]", target, _among(target, names))
        for index, target in enumerate(targets)
        if target not in names
    ]


def _among(name: str, names: set[str]) -> str:
    listed = ", ".join(sorted(names)) or "none"
    return f"no replicated job has this name{suggestion(name, sorted(names))}; there are: {listed}"
