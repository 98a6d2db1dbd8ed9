"""Everything there is to say about one JobSet, as text for people and as JSON for programs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import click
from msgspec import Struct

from jobset.api.meta import Object
from jobset.cli.board import SetRow, jobset_row, pod_notes
from jobset.cli.columns import Columns, age_of, age_since, state_style
from jobset.cli.documents import without_managed_fields
from jobset.cli.event_list import EventList, most_telling
from jobset.cli.jobset_list import jobset_word, latest_message
from jobset.cli.spec_words import spec_lines
from jobset.core.failed_containers import ContainerFailure

SHOWN_REASONS = 10
SHOWN_EVENTS = 12


class Description(Struct, frozen=True):
    """`waits`: why it is not further. `failures`: the first ones first. `log_problem`: why their logs are not shown."""

    jobset: Object
    jobs: Sequence[Object]
    pods: Sequence[Object]
    waits: Sequence[str]
    failures: Sequence[ContainerFailure]
    events: Sequence[Object]

    def as_object(self) -> Object:
        return {
            "jobSet": without_managed_fields(self.jobset),
            "state": jobset_word(self.jobset),
            "waitsFor": [*self.waits, *pod_notes(self._row())],
            "failures": [_failure(failure) for failure in self.failures],
            "events": [without_managed_fields(event) for event in self.events],
        }

    def lines(self, now: datetime) -> list[str]:
        sections = {
            "Spec": spec_lines(self.jobset),
            "Replicated jobs": self._counts(),
            "Conditions": self._conditions(now),
            "Waits because": self._waits(),
            "First failure": self._first_failure(now),
            "Events": EventList().table(most_telling(self.events, SHOWN_EVENTS), now) if self.events else [],
        }
        lines = list(self._head(now))
        for title, body in sections.items():
            if body:
                lines += ["", click.style(f"{title}:", bold=True), *(f"  {line}" for line in body)]
        return lines

    def _row(self) -> SetRow:
        return jobset_row(self.jobset, self.jobs, self.pods)

    def _head(self, now: datetime) -> Iterator[str]:
        metadata, status = self.jobset["metadata"], self.jobset.get("status") or {}
        state = jobset_word(self.jobset)
        yield f"Name:       {click.style(metadata['name'], bold=True)}"
        yield f"Namespace:  {metadata.get('namespace', '')}"
        yield f"State:      {state_style(state)}, attempt {status.get('restarts', 0) + 1}"
        if message := latest_message(self.jobset):
            yield f"            {message}"
        yield f"Created:    {age_of(self.jobset, now)} ago"
        if restarts := _restarts(self.jobset):
            yield f"Restarts:   {restarts}"
        for title, key in (("Labels", "labels"), ("Annotations", "annotations")):
            for index, (name, value) in enumerate(sorted((metadata.get(key) or {}).items())):
                if name != _APPLIED:
                    yield f"{f'{title}:' if index == 0 else '':<12}{name}={_one_line(value)}"

    def _counts(self) -> list[str]:
        status = self.jobset.get("status") or {}
        counts = {entry["name"]: entry for entry in status.get("replicatedJobsStatus") or ()}
        rows = []
        for replicated in self.jobset["spec"].get("replicatedJobs") or ():
            entry = counts.get(replicated["name"], {})
            numbers = [str(entry.get(key, 0)) for key in ("active", "ready", "succeeded", "failed", "suspended")]
            alone = str(sum(entry.get("jobRestarts") or ()))
            rows.append([replicated["name"], str(replicated.get("replicas", 1)), *numbers, alone])
        headers = ("NAME", "JOBS", "ACTIVE", "READY", "SUCCEEDED", "FAILED", "SUSPENDED", "RESTARTED ALONE")
        return Columns(headers).table(rows)

    def _conditions(self, now: datetime) -> list[str]:
        found = (self.jobset.get("status") or {}).get("conditions") or ()
        rows = [
            [each["type"], each["status"], age_since(each.get("lastTransitionTime"), now), each.get("reason", ""),
             _one_line(each.get("message", ""))]
            for each in found
        ]  # fmt: skip
        return Columns(("TYPE", "STATUS", "FOR", "REASON", "MESSAGE")).table(rows) if rows else []

    def _waits(self) -> list[str]:
        reasons = [*self.waits, *pod_notes(self._row())]
        left_out = len(reasons) - SHOWN_REASONS
        more = [f"… {left_out} more reasons (-o json has them all)"] if left_out > 0 else []
        return reasons[:SHOWN_REASONS] + more

    def _first_failure(self, now: datetime) -> list[str]:
        if not self.failures:
            return []
        first, *others = self.failures
        word = "" if first.reason == "Error" else f"{first.reason}, "
        when = f", {age_since(first.finished_at, now)} ago" if first.finished_at else ""
        lines = [f"{first.pod} ({first.container}): {word}exit code {first.exit_code}{when}"]
        lines += [f"  > {line}" for line in first.log_tail]
        if others:
            lines.append(f"then {len(others)} other container{'s' if len(others) > 1 else ''} failed")
        return lines


_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def _restarts(jobset: Object) -> str:
    status = jobset.get("status") or {}
    restarts, counted = status.get("restarts", 0), status.get("restartsCountTowardsMax", 0)
    most = (jobset["spec"].get("failurePolicy") or {}).get("maxRestarts", 0)
    if not restarts and not most:
        return ""
    return f"{restarts}, of which {counted} count towards the {most} that are allowed"


def _failure(failure: ContainerFailure) -> Object:
    return {
        "pod": failure.pod,
        "container": failure.container,
        "exitCode": failure.exit_code,
        "reason": failure.reason,
        "finishedAt": failure.finished_at,
        "lastLines": list(failure.log_tail),
    }


def _one_line(text: str) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= 160 else f"{line[:159]}…"
