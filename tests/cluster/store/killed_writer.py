"""A process that writes into a store until it is killed, and the judge of what it left.

    python killed_writer.py FILE DURABILITY SEED

The writer says each write on its standard output after the store acknowledged it: "KEY REVISION put|remove". The judge
kills it in the middle, opens the file and compares: nothing acknowledged may be missing, and of what was not
acknowledged only the one write that was under way may be there.
"""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from jobset.cluster.store.sqlite import Durability, SqliteStore

KEYS = 200
RESOURCE = "configmaps"


def write_for_ever(path: Path, durability: Durability, seed: int) -> None:
    store = SqliteStore(path, durability=durability)
    chance = random.Random(seed)
    while True:
        name = f"key-{chance.randrange(KEYS)}"
        obj = store.get(RESOURCE, "default", name)
        if obj is not None and chance.random() < 0.2:
            store.remove(RESOURCE, obj)
            done = "remove"
        else:
            data = {"value": "x" * chance.randrange(8000)}
            store.put(RESOURCE, {"metadata": {"name": name, "namespace": "default"}, "data": data})
            done = "put"
        sys.stdout.write(f"{name} {store.revision} {done}\n")
        sys.stdout.flush()


@dataclass
class Judge:
    """Knows what was acknowledged over all rounds: the revision of each key, 0 for one that was removed."""

    path: Path
    durability: Durability = "NORMAL"
    seed: int = 0
    acknowledged: int = 0
    lost: list[str] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)
    revision: int = 0
    _revisions: dict[str, int] = field(default_factory=dict)

    def kill_once(self, after: int) -> None:
        """Let a writer acknowledge `after` writes, kill it, and compare."""
        self.seed += 1
        arguments = [sys.executable, __file__, str(self.path), self.durability, str(self.seed)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            lines = list(islice(writer.stdout, after))
            assert len(lines) == after, "the writer ended by itself"
            writer.kill()
            lines += writer.stdout.readlines()
        for line in lines:
            if line.endswith("\n"):
                name, revision, done = line.split()
                self.revision = int(revision)
                self._revisions[name] = int(revision) if done == "put" else 0
                self.acknowledged += 1
        self._compare()

    def _compare(self) -> None:
        store = SqliteStore(self.path)  # checks the integrity of the file
        try:
            found = {obj["metadata"]["name"]: int(obj["metadata"]["resourceVersion"]) for obj in store.list(RESOURCE)}
            if store.revision < self.revision:
                self.lost.append(f"revision {self.revision} was acknowledged, {store.revision} is there")
            under_way = self.revision + 1
            for name in sorted(self._revisions | found):
                expected, actual = self._revisions.get(name, 0), found.get(name, 0)
                if actual == expected:
                    continue
                if actual == under_way or (actual == 0 and store.revision == under_way):
                    self._revisions[name] = actual
                    self.unasked.append(name)
                else:
                    self.lost.append(f"{name}: {expected} was acknowledged, {actual} is there")
            self.revision = store.revision
        finally:
            store.close()


if __name__ == "__main__":
    write_for_ever(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))  # type: ignore[arg-type]
