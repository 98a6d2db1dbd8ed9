"""Bodies: JSON with fields that stand twice, YAML, and protobuf as kubectl sends it."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobset.api.errors import BadRequest, UnsupportedMediaType
from jobset.cluster.apiserver.http import protobuf
from jobset.cluster.apiserver.http.bodies import decode_object, decode_patch, patch_type

NAMESPACE = bytes.fromhex(
    "6b3873000a0f0a02763112094e616d657370616365121c0a140a0473686f7012001a0022002a0032003800420012001a020a001a002200"
)
"""kubectl create namespace shop"""


@pytest.mark.parametrize(
    ("body", "twice"),
    [
        (b'{"a": 1, "b": {"a": 1}}', []),
        (b'{"a": 1, "a": 2}', ["a"]),
        (b'{"a": {"b": [{"c": 1}, {"c": 1, "c": 2}]}}', ["a.b[1].c"]),
        (b'{"a": "{\\"b\\": 1, \\"b\\": 2}"}', []),
        (b'{"a" : 1, "a"\n:2}', ["a"]),
    ],
)
def test_fields_that_stand_twice(body: bytes, twice: list[str]) -> None:
    value, found = decode_object("application/json", body, "Thing")
    assert found == twice
    if twice == ["a"]:
        assert value == {"a": 2}  # the last one counts


@pytest.mark.parametrize("body", [b"", b"{", b"[", b"\xff", b"[" * 100_000])
def test_what_is_no_json(body: bytes) -> None:
    with pytest.raises(BadRequest):
        decode_object("", body, "Thing")


def test_yaml_reads_words_as_kubernetes_does() -> None:
    value, _ = decode_object("application/yaml", b"a: yes\nb: 'yes'\nc: 2026-01-01\n", "Thing")
    assert value == {"a": True, "b": "yes", "c": "2026-01-01"}


def test_an_apply_is_yaml() -> None:
    assert decode_patch("application/apply-patch+yaml; charset=utf-8", b"a: 1")[0] == {"a": 1}


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded"])
def test_other_media_types_are_refused(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType):
        decode_object(content_type, b"{}", "Thing")
    with pytest.raises(UnsupportedMediaType):
        patch_type(content_type)


def test_protobuf_says_what_it_is_and_leaves_out_what_was_never_set() -> None:
    value, _ = decode_object(protobuf.MEDIA_TYPE, NAMESPACE, "Namespace")
    assert value == {
        "kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "shop"}, "spec": {}, "status": {}
    }  # fmt: skip


@given(st.binary(max_size=200))
def test_no_bytes_break_the_protobuf_reader(data: bytes) -> None:
    for body in (b"k8s\0" + data, NAMESPACE[:20] + data):
        with suppress(BadRequest):
            assert isinstance(protobuf.decode(body), dict)
