"""The store in one SQLite file: a write counts once its transaction is committed; reads and watches come from memory.

Every `put` and `remove` is one transaction, committed before anybody sees the change, so whatever was answered or
watched survives the end of the process at any moment. With NORMAL durability a loss of power may take the last
commits (never the consistency of the file); FULL waits for the disk at each write. The file holds current objects
only: the history of watches begins anew with each process, and a watch from before gets Gone.

One process at a time: the file is locked for as long as the store is open, by the kernel, so a killed process leaves
no lock behind. The lock is SQLite's exclusive mode, which also needs no shared memory and works on network homes.
"""

from __future__ import annotations

import gc
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from jobset.api.errors import InternalError
from jobset.api.meta import Object
from jobset.cluster.store.sharing import SharingDecoder
from jobset.cluster.store.tables import BUFFER, HISTORY, Tables, key_of, versioned

Durability: TypeAlias = Literal["NORMAL", "FULL"]

APPLICATION_ID = 0x4A4F4253
"""Marks the files that are ours ("JOBS")."""
SCHEMA_VERSION = 1
FREE_PAGES_KEPT = 256
"""Pages that deleted objects left and new ones may take; more are given back when the store opens or closes."""

_SCHEMA = """
CREATE TABLE objects (
  id INTEGER PRIMARY KEY,
  resource TEXT NOT NULL,
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  revision INTEGER NOT NULL,
  body BLOB NOT NULL,
  UNIQUE (resource, namespace, name)
);
CREATE TABLE removals (last_revision INTEGER NOT NULL);
INSERT INTO removals VALUES (0);
"""
_PUT = """
INSERT INTO objects (resource, namespace, name, revision, body) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET revision = excluded.revision, body = excluded.body
"""
_REMOVE = "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?"
_REVISION = "SELECT max(coalesce((SELECT max(revision) FROM objects), 0), (SELECT last_revision FROM removals))"


class StoreUnusable(Exception):
    """The file cannot serve as a store: damaged, foreign, too new, in use, or not to be opened. Says what to do."""


class SqliteStore(Tables):
    """The store port (cluster/store/port.py) on the file `path`, which is made when it is missing."""

    def __init__(
        self,
        path: Path,
        *,
        durability: Durability = "NORMAL",
        history: int = HISTORY,
        buffer: int = BUFFER,
        paranoid: bool = False,
    ) -> None:
        super().__init__(history=history, buffer=buffer, paranoid=paranoid)
        self._connection = _open(path, durability)
        try:
            with _explained(path), _garbage_collection_paused():
                self.compact()
                self.load(_objects(self._connection), _one(self._connection, _REVISION))
        except BaseException:
            self._connection.close()
            raise

    def put(self, resource: str, obj: Object) -> Object:
        revision = self.revision + 1
        stored = versioned(obj, revision)
        row = (resource, *key_of(stored), revision, msgspec.json.encode(stored))
        try:
            self._connection.execute(_PUT, row)
        except sqlite3.Error as error:
            raise _not_written(error) from error
        return self.accept_put(resource, stored)

    def remove(self, resource: str, obj: Object) -> Object:
        removed = versioned(obj, self.revision + 1)
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_REMOVE, (resource, *key_of(removed)))
            connection.execute("UPDATE removals SET last_revision = ?", (self.revision + 1,))
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise _not_written(error) from error
        return self.accept_removal(resource, removed)

    def compact(self) -> None:
        """Give what deleted objects left back to the file system, and empty the log into the file."""
        free = _one(self._connection, "PRAGMA freelist_count")
        if free > FREE_PAGES_KEPT:
            # a step a page: `execute` would take the first one only
            self._connection.executescript(f"PRAGMA incremental_vacuum({free - FREE_PAGES_KEPT})")
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Compact and unlock the file. What was written is safe without it."""
        try:
            self.compact()
        finally:
            self._connection.close()


def _not_written(error: sqlite3.Error) -> InternalError:
    return InternalError(f"the change could not be stored, and was not made: {error}")


def _open(path: Path, durability: Durability) -> sqlite3.Connection:
    """A connection that holds the lock of a sound file of ours. StoreUnusable."""
    with _explained(path):
        _make_private(path)
        connection = sqlite3.connect(path, isolation_level=None, timeout=0)
        try:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # heeded by an empty file only, and before any read
            if _belongs_to_us(connection, path):
                _check_version(connection, path)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {durability}")
            if not _one(connection, "PRAGMA user_version"):
                _create(connection)
            _check_integrity(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what SQLite, the file system and the decoder say into StoreUnusable."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StoreUnusable(f"{path} is in use by another server: stop that one first") from error
        raise StoreUnusable(f"{path} cannot be opened: {error}") from error
    except OSError as error:
        raise StoreUnusable(f"{path} cannot be opened: {error.strerror or error}") from error
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            raise _foreign(path) from error
        raise _damaged(path, str(error)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, LookupError, TypeError) as error:
        raise _damaged(path, f"an object in it cannot be read ({error})") from error


def _damaged(path: Path, what: str) -> StoreUnusable:
    return StoreUnusable(f"{path} is damaged: {what}. Restore it from a copy, or move it away to begin empty")


def _foreign(path: Path) -> StoreUnusable:
    return StoreUnusable(f"{path} is not a JobSet store: nothing in it was touched. Choose another path")


def _make_private(path: Path) -> None:
    """Only its owner may read the file; SQLite gives its log the same mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)


def _belongs_to_us(connection: sqlite3.Connection, path: Path) -> bool:
    """False for a file that is still empty. The first read of the file: it takes the lock."""
    if _one(connection, "PRAGMA application_id") == APPLICATION_ID:
        return True
    if _one(connection, "SELECT count(*) FROM sqlite_master"):
        raise _foreign(path)
    return False


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    version = _one(connection, "PRAGMA user_version")
    if version != SCHEMA_VERSION:
        raise StoreUnusable(
            f"{path} was written by another version of jobset (schema {version}, this one reads {SCHEMA_VERSION}): "
            "use that version, or move the file away to begin empty"
        )


def _create(connection: sqlite3.Connection) -> None:
    marks = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"
    connection.executescript(f"BEGIN EXCLUSIVE; {_SCHEMA} {marks} COMMIT;")


def _check_integrity(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise _damaged(path, " ".join(found.split()))


def _one(connection: sqlite3.Connection, question: str) -> int:
    return int(connection.execute(question).fetchone()[0])


def _objects(connection: sqlite3.Connection) -> Iterator[tuple[str, Object]]:
    decode = SharingDecoder().decode
    for resource, body in connection.execute("SELECT resource, body FROM objects ORDER BY id"):
        yield resource, decode(body)


@contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """Loading makes many objects and no garbage: looking for some would take longer than the loading."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
