"""The agent of all nodes on this machine: runs one state machine per pod. The only runner of model/pod_lifecycle.

    Pod informer, runtime reports, timers -> a pod's inbox -> step -> instructions -> status, events

One object serves many (virtual) nodes. A pod costs no task of its own: its key is put in a work queue when something
happened or is due, and a worker then hears all its events, carries out the instructions, and writes the status once
nothing is under way that would change it at once. So an ordinary pod takes one write from bound to ready and one at
its end.

A status write names the version it was made from: conditions are a list that others write to as well
(DisruptionTarget), and a merge patch replaces lists whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from jobset.api.errors import ApiError, Conflict, NotFound
from jobset.api.merge_patch import diff_merge_patch
from jobset.api.meta import Object, parse_time
from jobset.api.resources import NODES, PODS, SERVICES
from jobset.client.port import Client
from jobset.cluster.kubelet.adoption import take_over
from jobset.cluster.kubelet.api_access import AccessSource, no_access
from jobset.cluster.kubelet.devices import Devices
from jobset.cluster.kubelet.execution import NAMESPACE_INDEX, Executor, Machine, exited
from jobset.cluster.kubelet.pods import PodRun, is_final, key_of_run
from jobset.cluster.kubelet.token_renewal import TokenRenewal
from jobset.cluster.model.pod_lifecycle.machine import next_wakeup, step
from jobset.cluster.model.pod_lifecycle.state import (
    KUBERNETES_BACK_OFF,
    BackOff,
    Begin,
    ConfirmDeletion,
    CreateSandbox,
    DeletionRequested,
    Event,
    Instruction,
    Notice,
    Removed,
    RemoveSandbox,
    RunHook,
    RunProbe,
    SignalContainer,
    Stage,
    StartContainer,
    Tick,
)
from jobset.cluster.model.pod_lifecycle.status import Place, build_status
from jobset.cluster.runtime.port import Exit, Runtime
from jobset.core.actions import EventNote
from jobset.reconcile.apply import Events, PassFailed
from jobset.reconcile.informer import Key, SharedInformers
from jobset.reconcile.worker import Controller, Outcome

WORKERS = 32
HEARD_BEFORE_YIELD = 32


class Kubelet:
    """Composed before the informers run; `run` until cancelled. The runtime is started and closed by its owner.

    `serves` tells which nodes' pods are ours. `access` tells how pods reach the API server. `events` None: no Events
    are sent. `devices` holds the ids of the GPUs that each node has. `runtime_name` begins the container ids. `workers`
    is how many pods may be starting at once.
    """

    def __init__(
        self,
        client: Client,
        informers: SharedInformers,
        runtime: Runtime,
        now: Callable[[], datetime],
        root: Path,
        serves: Callable[[str], bool],
        machine: Machine,
        *,
        access: AccessSource = no_access,
        events: Events | None = None,
        back_off: BackOff = KUBERNETES_BACK_OFF,
        devices: Mapping[str, Sequence[str]] | None = None,
        runtime_name: str = "process",
        workers: int = WORKERS,
    ) -> None:
        self._client = client
        self._runtime = runtime
        self._now = now
        self._root = root
        self._serves = serves
        self._events = events
        self._back_off = back_off
        self._runtime_name = runtime_name
        self._pods: dict[str, PodRun] = {}
        self._group: asyncio.TaskGroup | None = None
        services = informers.get(SERVICES)
        services.add_index(NAMESPACE_INDEX, _namespace)
        self._renewal = TokenRenewal(client, access, now)
        self._executor = Executor(
            client,
            runtime,
            informers.get(NODES).cache,
            services.cache,
            Devices(devices or {}),
            machine,
            access,
            self._renewal,
            self._warn,
        )
        self._controller = Controller("kubelet", self._pass, {}, workers=workers)
        self._pod_informer = informers.get(PODS)
        self._pod_informer.add_handler(self._pod_changed)
        runtime.on_exit = self._exited

    @property
    def active_pods(self) -> int:
        """Pods that are not over."""
        return len(self._pods)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._remove_strays())
            group.create_task(self._renewal.run())
            await self._controller.run()

    async def _remove_strays(self) -> None:
        await self._pod_informer.wait_synced()
        await self._executor.remove_strays()

    # -- what comes in --------------------------------------------------------------------------------------------

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self._pod_removed(old)
        if new is None:
            return
        node = new["spec"].get("nodeName")
        if not node or not self._serves(node):
            return
        run = self._pods.get(new["metadata"]["uid"])
        if run is None:
            if not is_final(new) or _waits_for_confirmation(new):
                self._adopt(new)
            return
        before = run.pod
        run.see(new)
        if _deletion(new) != _deletion(old or before):
            self._hear(run, DeletionRequested(self._grace_left_s(new)))
        elif _foreign_facts(new) != _foreign_facts(old or before):
            self._hear(run, Tick())

    def _pod_removed(self, pod: Object) -> None:
        run = self._pods.get(pod["metadata"]["uid"])
        if run is not None:
            self._hear(run, Removed())

    def _adopt(self, pod: Object) -> None:
        run = PodRun(pod, key_of_run(pod), self._root, self._back_off)
        self._pods[run.uid] = run
        grace_s = None if _deletion(pod) is None else self._grace_left_s(pod)
        found = self._runtime.adopt(run.uid)
        if found is not None or (pod.get("status") or {}).get("startTime"):
            self._executor.take_over(run)
            take_over(run, found, self._now(), grace_s)
            self._hear(run, Tick())
            return
        self._hear(run, Begin())
        if grace_s is not None:
            self._hear(run, DeletionRequested(grace_s))

    def _grace_left_s(self, pod: Object) -> float:
        deadline = parse_time(pod["metadata"]["deletionTimestamp"])
        left_s = (deadline - self._now()).total_seconds()
        # The timestamp has whole seconds; what was cut off is not taken from the grace.
        grace_s = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        return 0.0 if grace_s == 0 else min(grace_s, left_s + 1)

    def _exited(self, end: Exit) -> None:
        run = self._pods.get(end.container[0])
        if run is not None:
            self._hear(run, exited(run, end))

    def _hear(self, run: PodRun, event: Event) -> None:
        run.inbox.append(event)
        self._controller.queue.add(run.key)

    # -- one pass of one pod --------------------------------------------------------------------------------------

    async def _pass(self, key: Key) -> Outcome:
        run = self._pods.get(key[1])
        if run is None:
            return Outcome()
        run.inbox.append(Tick())
        heard = 0
        while run.inbox or run.pending:
            while run.pending:
                await self._execute(run, run.pending[0])
                run.pending.popleft()
            if run.inbox:
                heard += 1
                if heard % HEARD_BEFORE_YIELD == 0:
                    await asyncio.sleep(0)  # containers that end at once and start at once must not keep the loop
                run.state, instructions = step(run.state, run.inbox.popleft(), self._now())
                run.pending.extend(instructions)
        if run.state.settled:
            await self._write_status(run)
        if run.state.stage is Stage.DONE:
            del self._pods[run.uid]
            return Outcome()
        now = self._now()
        wakeup = next_wakeup(run.state, now)
        return Outcome(requeue_after_s=None if wakeup is None else (wakeup - now).total_seconds())

    async def _execute(self, run: PodRun, instruction: Instruction) -> None:
        match instruction:
            case CreateSandbox():
                run.inbox.append(await self._executor.create_sandbox(run))
            case StartContainer():
                run.inbox.append(await self._executor.start_container(run, instruction))
            case SignalContainer(container, attempt, signal):
                await self._runtime.signal_container((run.uid, container, attempt), signal)
            case RunHook():
                self._spawn(run, self._executor.run_hook(run, instruction))
            case RunProbe():
                self._spawn(run, self._executor.run_probe(run, instruction))
            case RemoveSandbox():
                self._executor.release_devices(run)
                await self._write_status(run)
                await self._executor.remove_sandbox(run)
            case ConfirmDeletion():
                await self._write_status(run)
                await self._confirm_deletion(run)
            case Notice(type_, reason, message):
                if self._events is not None:
                    await self._events.record(run.pod, EventNote(type_, reason, message))

    def _spawn(self, run: PodRun, work: Awaitable[Event]) -> None:
        async def answer() -> None:
            self._hear(run, await work)

        assert self._group is not None, "the kubelet runs"
        self._group.create_task(answer())

    def _warn(self, run: PodRun, reason: str, message: str) -> None:
        run.pending.append(Notice("Warning", reason, message))

    # -- what goes out --------------------------------------------------------------------------------------------

    async def _write_status(self, run: PodRun) -> None:
        """Write what changed, if anything did. Raises PassFailed: the pass is then tried again."""
        if run.state.gone:
            return
        place = Place(self._executor.host_ip(run.node), self._runtime_name)
        status = build_status(run.state, run.pod, place, self._now())
        patch = diff_merge_patch(run.pod.get("status") or {}, status)
        if not patch:
            return
        metadata = run.pod["metadata"]
        body = {"metadata": {"uid": run.uid, "resourceVersion": metadata["resourceVersion"]}, "status": patch}
        try:
            written = await self._client.patch(
                PODS, metadata["namespace"], metadata["name"], body, subresource="status"
            )
        except NotFound:
            return  # the informer will say so
        except ApiError as error:
            raise PassFailed([error]) from error
        run.see(written)

    async def _confirm_deletion(self, run: PodRun) -> None:
        metadata = run.pod["metadata"]
        try:
            await self._client.delete(PODS, metadata["namespace"], metadata["name"], uid=run.uid, grace_period_s=0)
        except (NotFound, Conflict):
            return  # somebody else was faster
        except ApiError as error:
            raise PassFailed([error]) from error


def _namespace(obj: Object) -> Iterable[str]:
    return (obj["metadata"].get("namespace", ""),)


def _deletion(pod: Object) -> tuple[str, int] | None:
    metadata = pod["metadata"]
    timestamp = metadata.get("deletionTimestamp")
    return None if timestamp is None else (timestamp, metadata.get("deletionGracePeriodSeconds") or 0)


def _waits_for_confirmation(pod: Object) -> bool:
    """Its end was told, and the kubelet was gone before it confirmed the deletion."""
    return bool(pod["metadata"].get("deletionGracePeriodSeconds"))


def _foreign_facts(pod: Object) -> tuple[object, ...]:
    """What others may change and the status depends on."""
    gates = {gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()}
    generation = pod["metadata"].get("generation")
    if not gates:
        return (generation,)
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return (generation, *((c["type"], c.get("status")) for c in conditions if c["type"] in gates))
