"""From method, path and query to what a request is about."""

import pytest

from jobset.cluster.apiserver.http.paths import RequestInfo, parse_query, request_info


def about(method: str, url: str) -> RequestInfo:
    path, _, query = url.partition("?")
    return request_info(method, path, parse_query(query))


CASES = [
    ("GET", "/api/v1/namespaces/a/pods", ("list", "", "v1", "pods", "a", "", "")),
    ("GET", "/api/v1/namespaces/a/pods?watch=true", ("watch", "", "v1", "pods", "a", "", "")),
    ("GET", "/api/v1/watch/namespaces/a/pods/p", ("watch", "", "v1", "pods", "a", "p", "")),
    ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dp", ("list", "", "v1", "pods", "", "p", "")),
    ("GET", "/api/v1/namespaces/a/pods/p/log", ("get", "", "v1", "pods", "a", "p", "log")),
    ("GET", "/api/v1/namespaces/a/pods/p/log?watch=1", ("get", "", "v1", "pods", "a", "p", "log")),
    ("POST", "/api/v1/namespaces", ("create", "", "v1", "namespaces", "", "", "")),
    ("GET", "/api/v1/namespaces/a", ("get", "", "v1", "namespaces", "a", "a", "")),
    ("PUT", "/api/v1/namespaces/a/finalize", ("update", "", "v1", "namespaces", "a", "a", "finalize")),
    ("PATCH", "/apis/batch/v1/namespaces/a/jobs/j/status", ("patch", "batch", "v1", "jobs", "a", "j", "status")),
    ("DELETE", "/apis/batch/v1/namespaces/a/jobs", ("deletecollection", "batch", "v1", "jobs", "a", "", "")),
    ("DELETE", "/apis/batch/v1/namespaces/a/jobs/j", ("delete", "batch", "v1", "jobs", "a", "j", "")),
]


@pytest.mark.parametrize(("method", "url", "expected"), CASES, ids=[f"{method} {url}" for method, url, _ in CASES])
def test_resources(method: str, url: str, expected: tuple[str, ...]) -> None:
    info = about(method, url)
    assert info.is_resource
    found = (info.verb, info.group, info.version, info.resource, info.namespace, info.name, info.subresource)
    assert found == expected


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1", "/apis", "/apis/batch/v1", "/healthz", "/openapi/v3/api/v1"])
def test_everything_else_is_method_and_path(path: str) -> None:
    assert about("GET", path) == RequestInfo("get", path)


def test_the_first_of_repeated_parameters_counts() -> None:
    assert dict(parse_query("a=1&a=2&b=")) == {"a": "1", "b": ""}
