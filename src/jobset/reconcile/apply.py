"""The one place that carries out plans: actions at most fifty at a time, then the status, then the events.

Stands after `plan` in a pass. It decides nothing but what an answer means: an object that is already there, or already
gone, is what the plan wanted; everything else is collected and fails the pass, which is then tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec import Struct, field

from jobset.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from jobset.api.merge_patch import diff_merge_patch
from jobset.api.meta import Object
from jobset.api.resources import Resource
from jobset.client.port import Writer
from jobset.core.actions import Action, CreateObject, DeleteObject, EventNote, PatchObject, Plan

MAX_PARALLEL = 50

log = logging.getLogger(__name__)


class Events(Protocol):
    """Where events go: `reconcile.events.EventRecorder`."""

    async def record(self, regarding: Object, note: EventNote) -> None: ...


class Applied(Struct):
    """What a plan's actions led to. `versions` holds, per resource, the last version that we wrote."""

    versions: dict[Resource, int] = field(default_factory=dict)
    failures: list[tuple[Action, ApiError]] = field(default_factory=list)
    stale: bool = False
    """Something was there that the caches did not show: look again."""
    notes: list[EventNote] = field(default_factory=list)
    """The events of actions that succeeded."""

    def wrote(self, resource: Resource, written: Object) -> None:
        version = int(written.get("metadata", {}).get("resourceVersion") or 0)
        self.versions[resource] = max(version, self.versions.get(resource, 0))


class PassFailed(Exception):
    """Some requests of a pass were refused. `conflict` means that only stale caches were at fault.

    `applied` tells what was done all the same: the next pass must not run before the caches show it.
    """

    def __init__(self, errors: Iterable[ApiError], applied: Applied | None = None) -> None:
        self.errors = list(errors)
        self.applied = applied
        self.conflict = all(isinstance(error, Conflict) for error in self.errors)
        shown = "; ".join(dict.fromkeys(str(error) for error in self.errors[:5]))
        super().__init__(shown + (f"; and {len(self.errors) - 5} more" if len(self.errors) > 5 else ""))


class Applier:
    """Carries out plans about root objects of one resource."""

    def __init__(self, writer: Writer, root: Resource, events: Events) -> None:
        self._writer = writer
        self._root = root
        self._events = events

    async def apply(self, root: Object, plan: Plan, on_status_written: Callable[[], None] | None = None) -> Applied:
        """Carry out `plan` for `root` (raw: metadata and the status the plan was made from). Raises PassFailed.

        The status is written even when an action failed: it tells of what was observed, not of the actions.
        """
        applied = Applied()
        await self._act(plan.actions, applied)
        for action, error in applied.failures:
            if isinstance(action, CreateObject) and action.failure_event:
                await self._events.record(root, EventNote("Warning", action.failure_event, str(error)))
        for note in applied.notes:
            await self._events.record(root, note)
        errors = [error for _, error in applied.failures]
        if plan.status is not None:
            try:
                await self._write_status(root, plan.status, applied)
            except NotFound:
                return applied  # deleted meanwhile: nobody to tell
            except ApiError as error:
                raise PassFailed([*errors, error], applied) from error
            if on_status_written is not None:
                on_status_written()
        for note in plan.events:
            await self._events.record(root, note)
        if errors:
            raise PassFailed(errors, applied)
        return applied

    async def _write_status(self, root: Object, status: Object, applied: Applied) -> None:
        patch = diff_merge_patch(root.get("status") or {}, status)
        if not patch:
            return
        metadata = root["metadata"]
        body = {"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}, "status": patch}
        written = await self._writer.patch(
            self._root, metadata.get("namespace", ""), metadata["name"], body, subresource="status"
        )
        applied.wrote(self._root, written)

    async def _act(self, actions: tuple[Action, ...], applied: Applied) -> None:
        if len(actions) == 1:
            await self._one(actions[0], applied)
            return
        pending = iter(actions)

        async def lane() -> None:
            for action in pending:
                await self._one(action, applied)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(MAX_PARALLEL, len(actions))):
                group.create_task(lane())

    async def _one(self, action: Action, applied: Applied) -> None:
        try:
            match action:
                case CreateObject():
                    written = await self._writer.create(action.resource, action.body)
                case PatchObject():
                    written = await self._patch(action)
                case DeleteObject():
                    written = await self._writer.delete(
                        action.resource,
                        action.namespace,
                        action.name,
                        uid=action.uid,
                        propagation=action.propagation,
                        grace_period_s=action.grace_period_s,
                    )
        except ApiError as error:
            gone = isinstance(action, DeleteObject) and isinstance(error, (NotFound, Conflict))
            there = isinstance(action, CreateObject) and isinstance(error, AlreadyExists)
            if gone or there:
                applied.stale = True
            else:
                applied.failures.append((action, error))
            return
        log.debug("%s: %s", action.why.reason, action.why.message)
        applied.wrote(action.resource, written)
        if not isinstance(action, PatchObject) and action.success_event:
            applied.notes.append(EventNote("Normal", action.success_event, action.why.message))

    async def _patch(self, action: PatchObject) -> Object:
        patch = action.patch
        if action.uid or action.resource_version:
            held = {"uid": action.uid, "resourceVersion": action.resource_version}
            metadata = {**patch.get("metadata", {}), **{key: value for key, value in held.items() if value}}
            patch = {**patch, "metadata": metadata}
        return await self._writer.patch(
            action.resource, action.namespace, action.name, patch, subresource=action.subresource
        )
