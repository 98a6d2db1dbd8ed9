"""The TTL controller: deletes finished Jobs, and with them their pods, once ttlSecondsAfterFinished is over."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from jobset.api.errors import NotFound
from jobset.api.meta import Object
from jobset.api.resources import JOBS
from jobset.client.port import Client
from jobset.cluster.model.job.expiry import expires_at
from jobset.reconcile.informer import Key, SharedInformers, key_of
from jobset.reconcile.worker import Controller, Outcome


class TTLController:
    def __init__(self, client: Client, informers: SharedInformers, now: Callable[[], datetime]) -> None:
        self._client = client
        self._now = now
        jobs = informers.get(JOBS)
        jobs.add_handler(self._job_changed)
        self._informers = informers
        self._controller = Controller("ttl", self._pass, {JOBS: jobs.cache})

    async def run(self) -> None:
        await self._informers.wait_synced()
        await self._controller.run()

    def _job_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and expires_at(new) is not None:
            self._controller.queue.add(key_of(new))

    async def _pass(self, key: Key) -> Outcome:
        """Reads the Job anew: its TTL may just have been extended, and a deletion cannot be taken back."""
        try:
            job = await self._client.get(JOBS, *key, dict)
            due = expires_at(job)
            if due is None:
                return Outcome()
            left_s = (due - self._now()).total_seconds()
            if left_s > 0:
                return Outcome(requeue_after_s=left_s)
            await self._client.delete(JOBS, *key, uid=job["metadata"]["uid"], propagation="Foreground")
        except NotFound:
            pass  # somebody else was quicker
        return Outcome()
