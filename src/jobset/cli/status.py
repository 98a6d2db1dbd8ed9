"""`jobset status`: whether a kept cluster is up, where, and what is in it."""

from __future__ import annotations

import json
import os
from datetime import datetime
from typing import Any

import click

from jobset.api.errors import ApiError
from jobset.api.meta import Object, condition_of, parse_time
from jobset.api.resources import JOBSETS, NODES, PODS
from jobset.cli.clock import clock, now_utc
from jobset.cli.up import name_option
from jobset.local.kept_place import Place, find_running, is_held, place_of

EXIT_DOWN, EXIT_BETWEEN, EXIT_UNREACHABLE = 3, 4, 5
PATIENCE_S = 5.0
EPILOG = """\b
Exit code:
  0  up
  3  not up
  4  starting or ending
  5  its server runs but does not answer
"""


@click.command(epilog=EPILOG)
@name_option
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True)
def status(name: str, output: str) -> None:
    """Say whether a cluster is up, its address, nodes and JobSets."""
    place = place_of(name, os.environ)
    code, found = _look(place, now_utc())
    click.echo(json.dumps(found, indent=2) if output == "json" else "\n".join(_lines(found)))
    raise click.exceptions.Exit(code)


def _look(place: Place, now: datetime) -> tuple[int, Object]:
    found: Object = {"name": place.name, "running": False, "directory": str(place.directory)}
    running = find_running(place)
    if running is None:
        held = is_held(place)
        return EXIT_BETWEEN if held else EXIT_DOWN, {**found, "state": "starting or ending" if held else "not up"}
    found |= {
        "running": True,
        "state": "up",
        "url": running.url,
        "pid": running.pid,
        "startedAt": running.started_at,
        "uptimeSeconds": int((now - parse_time(running.started_at)).total_seconds()),
        "network": running.network,
        "kubeconfig": str(place.kubeconfig),
        "log": str(place.log),
    }
    try:
        return 0, {**found, **_contents(place)}
    except ApiError as error:
        return EXIT_UNREACHABLE, {**found, "state": "does not answer", "problem": error.message}


def _contents(place: Place) -> Object:
    from jobset.client.credentials import Credentials
    from jobset.client.kubeconfig import load_target
    from jobset.client.query import QueryClient

    target = load_target({}, kubeconfig=str(place.kubeconfig))
    client = QueryClient(target, Credentials(target.login, now=now_utc), timeout_s=PATIENCE_S)
    nodes, jobsets, pods = (client.list(resource).items for resource in (NODES, JOBSETS, PODS))
    phases = [str((pod.get("status") or {}).get("phase", "")) for pod in pods]
    return {
        "nodes": [{"name": node["metadata"]["name"], "ready": _is_ready(node)} for node in nodes],
        "jobSets": [_jobset(jobset) for jobset in jobsets],
        "pods": {phase: phases.count(phase) for phase in sorted(set(phases))},
    }


def _is_ready(node: Object) -> bool:
    return (condition_of(node, "Ready") or {}).get("status") == "True"


def _jobset(jobset: Object) -> Object:
    status = jobset.get("status") or {}
    suspended = bool((jobset.get("spec") or {}).get("suspend"))
    state = status.get("terminalState") or ("Suspended" if suspended else "Active")
    metadata = jobset["metadata"]
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "state": state,
        "restarts": status.get("restarts", 0),
    }


def _lines(found: dict[str, Any]) -> list[str]:
    if not found["running"]:
        return [f"cluster {found['name']} is {found['state']}"]
    lines = [
        f"cluster {found['name']} is up: {found['url']}",
        f"  for {clock(found['uptimeSeconds'])}, process {found['pid']}; {found['network']}",
    ]
    if "problem" in found:
        return [*lines, f"  it does not answer: {found['problem']}", f"  log: {found['log']}"]
    not_ready = [node["name"] for node in found["nodes"] if not node["ready"]]
    lines.append(f"  nodes: {len(found['nodes'])}" + (f", not ready: {', '.join(not_ready)}" if not_ready else ""))
    phases = ", ".join(f"{count} {phase}" for phase, count in found["pods"].items())
    lines.append(f"  pods: {phases or 'none'}")
    lines.append("  JobSets:" if found["jobSets"] else "  JobSets: none")
    for jobset in found["jobSets"]:
        restarts = f", {jobset['restarts']} restarts" if jobset["restarts"] else ""
        lines.append(f"    {jobset['namespace']}/{jobset['name']}  {jobset['state']}{restarts}")
    return lines
