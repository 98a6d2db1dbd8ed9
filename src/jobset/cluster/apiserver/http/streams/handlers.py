"""The streaming subresources of pods: log, exec, attach, portforward. Called after authentication and authorization.

Finds the pod and the container that a request means, refuses what cannot be in the API server's words, and hands on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from aiohttp import web

from jobset.api.errors import BadRequest, MethodNotAllowed
from jobset.api.meta import Object
from jobset.cluster.apiserver.http.streams import queries
from jobset.cluster.apiserver.http.streams.logs import send_log
from jobset.cluster.apiserver.http.streams.port import PodStreams
from jobset.cluster.apiserver.http.streams.port_forward import serve_port_forward
from jobset.cluster.apiserver.http.streams.remote_command import SUCCESS, exec_status, serve_command
from jobset.cluster.apiserver.http.streams.targets import choose_container, require_node, require_running

SUBRESOURCES = ("log", "exec", "attach", "portforward")
_NO_CONTENT = 204


class PodStreamHandlers:
    """`find_pod` gives the pod of a namespace and name, or raises NotFound."""

    def __init__(
        self, streams: PodStreams, find_pod: Callable[[str, str], Object], now: Callable[[], datetime]
    ) -> None:
        self._streams = streams
        self._find_pod = find_pod
        self._now = now

    async def handle(self, request: web.Request, namespace: str, name: str, subresource: str) -> web.StreamResponse:
        """One of SUBRESOURCES. Raises errors of jobset.api.errors before anything is answered."""
        if request.method not in ("GET", "POST") or (subresource == "log" and request.method != "GET"):
            raise MethodNotAllowed("the server does not allow this method on the requested resource")
        query = {key: request.query.getall(key) for key in request.query}
        match subresource:
            case "log":
                return await self._log(request, namespace, name, query)
            case "exec":
                return await self._exec(request, self._find_pod(namespace, name), query)
            case "attach":
                return await self._attach(request, self._find_pod(namespace, name), query)
            case _:
                return await self._port_forward(request, self._find_pod(namespace, name))

    async def _log(
        self, request: web.Request, namespace: str, name: str, query: Mapping[str, list[str]]
    ) -> web.StreamResponse:
        options = queries.log_options(query, name, self._now())
        pod = self._find_pod(namespace, name)
        container = choose_container(pod, queries.text(query, "container"))
        if not pod["spec"].get("nodeName"):
            return web.Response(status=_NO_CONTENT)
        return await send_log(request, self._streams.logs(pod, container, options))

    async def _exec(self, request: web.Request, pod: Object, query: Mapping[str, list[str]]) -> web.StreamResponse:
        container, options = _commanded(pod, query)
        argv = query.get("command") or []
        if not argv:
            raise BadRequest("you must specify at least one command")
        return await serve_command(
            request,
            options,
            lambda: self._streams.exec(pod, container, argv, tty=options.tty, stdin=options.stdin),
            lambda exit_code: exec_status(argv, exit_code),
        )

    async def _attach(self, request: web.Request, pod: Object, query: Mapping[str, list[str]]) -> web.StreamResponse:
        container, options = _commanded(pod, query)
        return await serve_command(
            request,
            options,
            lambda: self._streams.attach(pod, container, stdin=options.stdin),
            lambda _: SUCCESS,  # its exit code is in the pod's status
        )

    async def _port_forward(self, request: web.Request, pod: Object) -> web.StreamResponse:
        require_node(pod)
        metadata = pod["metadata"]
        target = f"{metadata['name']}, uid {metadata['uid']}"
        return await serve_port_forward(request, lambda port: self._streams.dial(pod, port), target)


def _commanded(pod: Object, query: Mapping[str, list[str]]) -> tuple[str, queries.CommandOptions]:
    container = choose_container(pod, queries.text(query, "container"))
    require_node(pod)
    options = queries.command_options(query)
    require_running(pod, container)
    return container, options
