"""Keeps the service account tokens in pods' volumes from expiring: asks for new ones when most of their life is over.

One task for all pods. A file is replaced whole by a rename in its directory, which the pod sees through its mount.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct

from jobset.api.meta import Object
from jobset.client.port import Client
from jobset.cluster.kubelet.api_access import AccessSource, TokenKey, fetch_tokens, token_key
from jobset.cluster.kubelet.sources import ConfigError

RENEWED_AT = 0.8
"""The part of its life after which a token is renewed."""
LONGEST_S = 24 * 3600.0
RETRY_S = 60.0


class _Kept(Struct):
    pod: Object
    files: Mapping[TokenKey, Sequence[Path]]
    due: datetime


class TokenRenewal:
    """`keep` what a pod has, `drop` it when the pod is over; `run` until cancelled."""

    def __init__(self, client: Client, access: AccessSource, now: Callable[[], datetime]) -> None:
        self._client = client
        self._access = access
        self._now = now
        self._kept: dict[str, _Kept] = {}
        self._changed = asyncio.Event()

    def keep(self, pod: Object, files: Mapping[TokenKey, Sequence[Path]], *, fresh: bool) -> None:
        """`fresh` False: nobody knows how old these are; renew them at once."""
        if not files:
            return
        due = self._now() + timedelta(seconds=_pause_s(files) if fresh else 0)
        self._kept[pod["metadata"]["uid"]] = _Kept(pod, files, due)
        self._changed.set()

    def drop(self, uid: str) -> None:
        self._kept.pop(uid, None)

    async def run(self) -> None:
        await self._access()  # before there is an API server, there is nobody to ask
        while True:
            self._changed.clear()
            for uid, kept in list(self._kept.items()):
                if kept.due <= self._now():
                    await self._renew(uid, kept)
            next_due = min((kept.due for kept in self._kept.values()), default=None)
            wait_s = None if next_due is None else max((next_due - self._now()).total_seconds(), 0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()

    async def _renew(self, uid: str, kept: _Kept) -> None:
        pause_s = RETRY_S
        with contextlib.suppress(ConfigError, OSError):  # the account may be gone, or the pod's files just now
            tokens = await fetch_tokens(self._client, kept.pod, kept.files)
            for key, paths in kept.files.items():
                for path in paths:
                    _replace(path, tokens[key])
            pause_s = _pause_s(kept.files)
        if uid in self._kept:
            kept.due = self._now() + timedelta(seconds=pause_s)


def _pause_s(files: Iterable[TokenKey]) -> float:
    return min(LONGEST_S, RENEWED_AT * min(duration_s for _, duration_s in files))


def _replace(path: Path, token: bytes) -> None:
    aside = path.with_name(f".{path.name}.new")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, path.stat().st_mode & 0o777)
    with os.fdopen(descriptor, "wb") as file:
        file.write(token)
    aside.replace(path)


def token_files(volumes: Iterable[Object], directory: Path) -> dict[TokenKey, list[Path]]:
    """The token files that are there, of volumes that `prepare` made in the pod's directory."""
    found: dict[TokenKey, list[Path]] = {}
    for volume in volumes:
        for source in (volume.get("projected") or {}).get("sources") or ():
            if wanted := source.get("serviceAccountToken"):
                path = directory / "volumes" / volume["name"] / wanted["path"]
                if path.exists():
                    found.setdefault(token_key(wanted), []).append(path)
    return found
