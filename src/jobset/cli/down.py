"""`jobset down`: end a kept cluster and everything that runs in it, whether its server lives or not."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time

import click

from jobset.cli.up import ClusterFailed, name_option
from jobset.local.kept_place import Place, find_running, is_held, place_of, send

GRACE_S = 30.0
KILL_GRACE_S = 5.0
_LOOK_S = 0.05


@click.command()
@name_option
@click.option("--delete", is_flag=True, help="Delete its objects, volumes, logs and keys too.")
def down(name: str, delete: bool) -> None:
    """End a cluster: its server and all its pods. Objects, volumes and keys stay for the next `jobset up`."""
    place = place_of(name, os.environ)
    was_up = is_held(place)
    _end_server(place)
    found_pods = _end_pods(place)
    if delete:
        shutil.rmtree(place.directory, ignore_errors=True)
    if was_up:
        click.echo(f"cluster {name} is down")
    elif found_pods:
        click.echo(f"cluster {name} was not up; what its server had left behind is gone")
    else:
        click.echo(f"cluster {name} is not up")


def _end_server(place: Place) -> None:
    """Ask, then insist. A server that is only just starting is asked once it has said who it is."""
    for number, patience_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, KILL_GRACE_S)):
        deadline, asked = time.monotonic() + patience_s, False
        while is_held(place):
            if time.monotonic() > deadline:
                break
            running = None if asked else find_running(place)
            if running is not None:
                send(running, number)
                asked = True
            time.sleep(_LOOK_S)
        else:
            return
    raise ClusterFailed(f"the server of cluster {place.name} does not end; see {place.log}")


def _end_pods(place: Place) -> bool:
    """Whether there was something to end."""
    if not place.root.exists():
        return False
    from jobset.cluster.runtime.process.node.door import LOCK
    from jobset.cluster.runtime.process.surviving import end_pods

    found = (place.root / LOCK).exists()
    asyncio.run(end_pods(place.root))
    return found
