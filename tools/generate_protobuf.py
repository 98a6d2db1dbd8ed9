"""Write src/jobset/api/generated/protobuf.py: the numbers that the fields of Kubernetes' types have in protobuf.

Build time only. Source: the descriptors inside a kubectl binary (they are there up to 1.33). Numbers never change, new
fields only get new ones. Kept is what generate_schemas.py keeps, as far as clients send it.

    python tools/generate_protobuf.py /usr/bin/kubectl
"""

import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobset.api.schema import definitions

OUT = Path(__file__).parent.parent / "src/jobset/api/generated/protobuf.py"
_GZIP = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
_LONGEST = 400_000
_REPEATED = 3
_SCALARS = {1: "double", 3: "int", 5: "int", 8: "bool", 9: "string", 12: "bytes", 13: "int", 4: "int"}
MEANT_WHEN_ZERO = frozenset(
    """activeDeadlineSeconds allocateLoadBalancerNodePorts allowPrivilegeEscalation automountServiceAccountToken
    backoffLimit backoffLimitPerIndex blockOwnerDeletion completions controller defaultMode deletionGracePeriodSeconds
    enableServiceLinks expirationSeconds fsGroup gracePeriodSeconds hostUsers immutable leaseDurationSeconds
    leaseTransitions manualSelector maxFailedIndexes minDomains mode optional orphanDependents parallelism port priority
    privileged publishNotReadyAddresses readOnlyRootFilesystem ready runAsGroup runAsNonRoot runAsUser serving
    setHostnameAsFQDN shareProcessNamespace started suspend terminatedReplicas terminating terminationGracePeriodSeconds
    tolerationSeconds ttlSecondsAfterFinished""".split()  # noqa: SIM905
)
"""Fields that Go has as pointers: sent only when set, so that zero and false mean something."""
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value) of a message: numbers, or bytes."""
    position = 0

    def varint() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while position < len(data):
        key = varint()
        match key & 7:
            case 0:
                yield key >> 3, varint()
            case 2:
                length = varint()
                yield key >> 3, data[position : position + length]
                position += length
            case 1:
                position += 8
            case _:
                position += 4


def named(message: bytes) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for number, value in fields(message):
        found.setdefault(number, []).append(value)
    return found


def files(binary: bytes) -> Iterator[bytes]:
    at = binary.find(_GZIP)
    while at >= 0:
        try:
            text = zlib.decompressobj(31).decompress(binary[at : at + _LONGEST])
        except zlib.error:
            text = b""
        if text[:1] == b"\n" and b".proto" in text[:200]:
            yield text
        at = binary.find(_GZIP, at + 1)


def full_name(name: str) -> str:
    """.k8s.io.api.core.v1.Pod is io.k8s.api.core.v1.Pod in OpenAPI."""
    return name.removeprefix(".").replace("k8s.io.", "io.k8s.", 1).replace("kubernetes.vendor.", "")


def messages(file: bytes) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """(name, {number: [field, type, shape]}) of every message. A type that is no scalar is a name.

    Shapes: list, map, inline (its fields stand among those of the message), zero (kept though zero), or nothing.
    """
    descriptor = named(file)
    package = descriptor[2][0].decode()
    for message in descriptor.get(4, ()):
        parts = named(message)
        name = full_name(f"{package}.{parts[1][0].decode()}")
        entries = {
            full_name(f"{package}.{parts[1][0].decode()}.{named(e)[1][0].decode()}"): e for e in parts.get(3, ())
        }
        yield name, {str(number): one for number, one in (field(f, entries) for f in parts.get(2, ()))}


def field(descriptor: bytes, entries: dict[str, bytes]) -> tuple[int, list[str]]:
    parts = named(descriptor)
    type_ = full_name(parts[6][0].decode()) if 6 in parts else _SCALARS[parts[5][0]]
    shape = "list" if parts[4][0] == _REPEATED else ""
    if type_ in entries:
        values = {named(one)[3][0]: named(one) for one in named(entries[type_])[2]}
        value = values[2]
        type_, shape = (full_name(value[6][0].decode()) if 6 in value else _SCALARS[value[5][0]]), "map"
    return parts[3][0], [parts[1][0].decode(), type_, shape]


def shaped(name: str, table: dict[str, list[str]]) -> dict[str, list[str]]:
    """The fields with those shapes that only the JSON schema, or Kubernetes' Go types, can tell."""
    schema = definitions().get(name, {})
    properties, required = schema.get("properties", {}), schema.get("required", ())
    result = {}
    for number, (field_name, type_, shape) in table.items():
        if not shape and properties and field_name not in properties and "." in type_:
            shape = "inline"
        elif not shape and type_ in ("int", "bool") and (field_name in required or field_name in MEANT_WHEN_ZERO):
            shape = "zero"
        result[number] = [field_name, type_, shape]
    return result


def main() -> None:
    binary = Path(sys.argv[1]).read_bytes()
    everything = {name: table for file in files(binary) for name, table in messages(file)}
    known = definitions()
    queue = [name for name in known if name in everything and "x-kubernetes-group-version-kind" in known[name]]
    queue += [f"{_META}DeleteOptions"]
    wanted: dict[str, dict[str, list[str]]] = {}
    while queue:
        name = queue.pop()
        if name not in wanted and name in everything:
            wanted[name] = shaped(name, everything[name])
            queue += [type_ for _, type_, _ in everything[name].values()]
    text = json.dumps(dict(sorted(wanted.items())), separators=(",", ":"), sort_keys=True)
    lines = [text[start : start + 110] for start in range(0, len(text), 110)]
    body = "\n".join(f"    {line!r}" for line in lines)
    OUT.write_text(
        '"""Kubernetes\' types in protobuf, generated by tools/generate_protobuf.py. Do not edit."""\n\n'
        f"MESSAGES_JSON = (\n{body}\n)\n"
    )
    print(f"{OUT}: {len(wanted)} messages, {len(text)} bytes")


if __name__ == "__main__":
    main()
