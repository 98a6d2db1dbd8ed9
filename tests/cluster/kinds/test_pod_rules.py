"""What is wrong with a pod: every rule names its field and its reason, and a good pod passes."""

from __future__ import annotations

from typing import Any

import pytest

from jobset.api.meta import Object
from jobset.cluster.model.kinds.pods import POD

REQUIRED, INVALID, NOT_SUPPORTED = "FieldValueRequired", "FieldValueInvalid", "FieldValueNotSupported"
DUPLICATE, FORBIDDEN, NOT_FOUND, TOO_MANY = (
    "FieldValueDuplicate", "FieldValueForbidden", "FieldValueNotFound", "FieldValueTooMany",
)  # fmt: skip


def pod(**spec: Any) -> Object:
    whole = {"containers": [container()], **spec}
    metadata = {"name": "p", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return POD.prepare_create(POD.default({"metadata": metadata, "spec": whole}))


def container(**fields: Any) -> Object:
    return {"name": "c", "image": "x", **fields}


def problems(obj: Object) -> list[tuple[str, str]]:
    return [(cause.field.removeprefix("spec."), cause.reason) for cause in POD.validate(obj)]


FIRST = "containers[0]"
CONTAINER_CASES: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"name": ""}, [(f"{FIRST}.name", REQUIRED)]),
    ({"image": ""}, [(f"{FIRST}.image", REQUIRED)]),
    ({"image": " x"}, [(f"{FIRST}.image", INVALID)]),
    ({"terminationMessagePolicy": "Shout"}, [(f"{FIRST}.terminationMessagePolicy", NOT_SUPPORTED)]),
    ({"ports": [{"containerPort": 80, "protocol": "ICMP"}]}, [(f"{FIRST}.ports[0].protocol", NOT_SUPPORTED)]),
    (
        {"ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]},
        [(f"{FIRST}.ports[1].name", DUPLICATE)],
    ),
    (
        {"ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81, "hostPort": 8080}]},
        [(f"{FIRST}.ports[1].hostPort", DUPLICATE)],
    ),
    ({"env": [{"name": "A", "valueFrom": {}}]}, [(f"{FIRST}.env[0].valueFrom", INVALID)]),
    (
        {"env": [{"name": "A", "value": "b", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
        [(f"{FIRST}.env[0].valueFrom", INVALID)],
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]},
        [(f"{FIRST}.env[0].valueFrom.fieldRef.fieldPath", NOT_SUPPORTED)],
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nonsense"}}}]},
        [(f"{FIRST}.env[0].valueFrom.fieldRef.fieldPath", INVALID)],
    ),
    ({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['x/y']"}}}]}, []),
    (
        {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.disk"}}}]},
        [(f"{FIRST}.env[0].valueFrom.resourceFieldRef.resource", NOT_SUPPORTED)],
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"key": "a/b"}}}]},
        [
            (f"{FIRST}.env[0].valueFrom.configMapKeyRef.name", INVALID),
            (f"{FIRST}.env[0].valueFrom.configMapKeyRef.key", INVALID),
        ],
    ),
    ({"envFrom": [{}]}, [(f"{FIRST}.envFrom", INVALID)]),
    ({"envFrom": [{"configMapRef": {}}]}, [(f"{FIRST}.envFrom[0].configMapRef.name", REQUIRED)]),
    ({"livenessProbe": {}}, [(f"{FIRST}.livenessProbe", REQUIRED)]),
    ({"livenessProbe": {"exec": {}}}, [(f"{FIRST}.livenessProbe.exec.command", REQUIRED)]),
    (
        {"livenessProbe": {"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}}},
        [(f"{FIRST}.livenessProbe.tcpSocket", FORBIDDEN)],
    ),
    (
        {"livenessProbe": {"tcpSocket": {"port": 1}, "successThreshold": 2}},
        [(f"{FIRST}.livenessProbe.successThreshold", INVALID)],
    ),
    (
        {"readinessProbe": {"httpGet": {"port": 0, "scheme": "FTP"}, "periodSeconds": -1}},
        [
            (f"{FIRST}.readinessProbe.httpGet.port", INVALID),
            (f"{FIRST}.readinessProbe.httpGet.scheme", NOT_SUPPORTED),
            (f"{FIRST}.readinessProbe.periodSeconds", INVALID),
        ],
    ),
    ({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}, [(f"{FIRST}.lifecycle.preStop.sleep", INVALID)]),
    ({"resources": {"limits": {"cpu": "-1"}}},
     [(f"{FIRST}.resources.limits[cpu]", INVALID), (f"{FIRST}.resources.requests[cpu]", INVALID)]),
    ({"resources": {"requests": {"disk": "1"}}}, [(f"{FIRST}.resources.requests[disk]", INVALID)] * 2),
    ({"resources": {"requests": {"example.com/a": "1"}}}, [(f"{FIRST}.resources.limits", REQUIRED)]),
    ({"resources": {"limits": {"hugepages-2Mi": "4Mi"}}}, [(f"{FIRST}.resources", FORBIDDEN)]),
    (
        {"restartPolicyRules": [{"action": "Restart"}]},
        [(f"{FIRST}.restartPolicy", REQUIRED), (f"{FIRST}.restartPolicyRules[0].exitCodes", REQUIRED)],
    ),
    (
        {"restartPolicy": "Never", "restartPolicyRules": [
            {"action": "RestartAllContainers", "exitCodes": {"operator": "Near", "values": [1]}}]},
        [(f"{FIRST}.restartPolicyRules[0].exitCodes.operator", NOT_SUPPORTED)],
    ),
    (
        {"restartPolicy": "Never", "restartPolicyRules": [
            {"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}] * 21},
        [(f"{FIRST}.restartPolicyRules", TOO_MANY)],
    ),
    ({"securityContext": {"runAsUser": -1}}, [(f"{FIRST}.securityContext.runAsUser", INVALID)]),
    (
        {"securityContext": {"privileged": True, "allowPrivilegeEscalation": False}},
        [(f"{FIRST}.securityContext", INVALID)],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), CONTAINER_CASES)
def test_containers(fields: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert problems(pod(containers=[container(**fields)])) == expected


MOUNTED = {"volumes": [{"name": "v", "emptyDir": {}}]}
SPEC_CASES: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({}, []),
    ({"initContainers": [container()]}, [("initContainers[0].name", DUPLICATE)]),
    (
        {"initContainers": [container(name="i", livenessProbe={"tcpSocket": {"port": 1}})]},
        [("initContainers[0].livenessProbe", FORBIDDEN)],
    ),
    (
        {"initContainers": [container(name="i", restartPolicy="Always", livenessProbe={"tcpSocket": {"port": 1}})]},
        [],
    ),
    ({"ephemeralContainers": [container(name="e")]}, [("ephemeralContainers", FORBIDDEN)]),
    (
        {**MOUNTED, "containers": [container(volumeMounts=[{"name": "v", "mountPath": "/a"}] * 2)]},
        [("containers[0].volumeMounts[1].mountPath", INVALID)],
    ),
    (
        {**MOUNTED, "containers": [container(volumeMounts=[{"name": "v", "mountPath": "/a", "subPath": "../b"}])]},
        [("containers[0].volumeMounts.subPath", INVALID)],
    ),
    ({"volumes": [{"name": "V", "emptyDir": {}}]}, [("volumes[0].name", INVALID)]),
    ({"volumes": [{"name": "v", "emptyDir": {}}] * 2}, [("volumes[1].name", DUPLICATE)]),
    (
        {"volumes": [{"name": "v", "persistentVolumeClaim": {}}]},
        [("volumes[0].persistentVolumeClaim.claimName", REQUIRED)],
    ),
    ({"volumes": [{"name": "v", "secret": {}}]}, [("volumes[0].secret.secretName", REQUIRED)]),
    ({"volumes": [{"name": "v", "hostPath": {"path": "/a/../b"}}]}, [("volumes[0].hostPath.path", INVALID)]),
    (
        {"volumes": [
            {"name": "v", "configMap": {"name": "m", "defaultMode": 0o1000, "items": [{"key": "k", "path": "/a"}]}}]},
        [("volumes[0].configMap.defaultMode", INVALID), ("volumes[0].configMap.items[0].path", INVALID)],
    ),
    (
        {"volumes": [{"name": "v", "downwardAPI": {"items": [{"path": "a"}]}}]},
        [("volumes[0].downwardAPI", REQUIRED)],
    ),
    (
        {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {}, "configMap": {"name": "m"}}]}}]},
        [
            ("volumes[0].projected.sources[0].secret.name", REQUIRED),
            ("volumes[0].projected.sources[0]", FORBIDDEN),
        ],
    ),
    (
        {"hostNetwork": True, "containers": [container(ports=[{"containerPort": 80, "hostPort": 81}])]},
        [("containers[0].ports[0].hostPort", INVALID)],
    ),
    ({"hostNetwork": True, "containers": [container(ports=[{"containerPort": 80}])]}, []),
    ({"resourceClaims": [{"name": "g"}]}, [("resourceClaims[0]", INVALID)]),
    (
        {"volumes": [{"name": "v", "projected": {"sources": [
            {"configMap": {"name": "m", "items": [{"key": "k", "path": "a"}]}},
            {"secret": {"name": "s", "items": [{"key": "k", "path": "a"}]}}]}}]},
        [("volumes[0].projected", INVALID)],
    ),
    ({"os": {"name": "plan9"}}, [("os", NOT_SUPPORTED)]),
    ({"dnsPolicy": "None"}, [("dnsConfig", REQUIRED)]),
    ({"dnsPolicy": "Mine"}, [("dnsPolicy", NOT_SUPPORTED)]),
    ({"dnsConfig": {"nameservers": ["nowhere"]}}, [("dnsConfig.nameservers[0]", INVALID)]),
    ({"hostname": "a.b"}, [("hostname", INVALID)]),
    ({"subdomain": "A"}, [("subdomain", INVALID)]),
    ({"nodeName": "Bad_Node"}, [("nodeName", INVALID)]),
    ({"nodeName": "n", "schedulingGates": [{"name": "g"}]}, [("nodeName", FORBIDDEN)]),
    (
        {"hostAliases": [{"ip": "x", "hostnames": ["A_"]}]},
        [("hostAliases[0].ip", INVALID), ("hostAliases[0].hostnames[0]", INVALID)],
    ),
    ({"shareProcessNamespace": True, "hostPID": True}, [("shareProcessNamespace", INVALID)]),
    ({"tolerations": [{"key": "a", "operator": "Near"}]}, [("tolerations[0].operator", NOT_SUPPORTED)]),
    ({"tolerations": [{"operator": "Equal"}]}, [("tolerations[0].operator", INVALID)]),
    ({"tolerations": [{"key": "a", "tolerationSeconds": 3}]}, [("tolerations[0].effect", INVALID)]),
    ({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}, [("tolerations[0].operator", INVALID)]),
    (
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}},
        [("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms", REQUIRED)],
    ),
    (
        {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 0, "podAffinityTerm": {"topologyKey": "a", "labelSelector": {
                "matchExpressions": [{"key": "k", "operator": "In"}]}}}]}}},
        [
            ("affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight", INVALID),
            (
                "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
                ".podAffinityTerm.labelSelector.matchExpressions[0].values",
                REQUIRED,
            ),
        ],
    ),
    (
        {"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}]},
        [("topologySpreadConstraints[0].minDomains", INVALID)],
    ),
    (
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}] * 2},
        [("topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}", DUPLICATE)],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), SPEC_CASES)
def test_specs(spec: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert problems(pod(**spec)) == expected


def changed(old: Object, **spec: Any) -> list[tuple[str, str]]:
    new = POD.prepare_update(POD.default({**old, "spec": {**old["spec"], **spec}}), old)
    return [(cause.field, cause.reason) for cause in POD.validate_update(new, old)]


def test_what_an_update_may_not_change() -> None:
    old = pod(nodeSelector={"a": "b"}, subdomain="s")
    assert changed(old, subdomain="t") == [("spec", FORBIDDEN)]
    assert changed(old, nodeSelector={"a": "b", "c": "d"}) == [("spec", FORBIDDEN)]
    assert changed(old, containers=[*old["spec"]["containers"], container(name="d")]) == [
        ("spec.containers", FORBIDDEN)
    ]
    assert changed(old, containers=[{**old["spec"]["containers"][0], "image": "other:1"}]) == []
    assert changed(old, containers=[{**old["spec"]["containers"][0], "command": ["x"]}]) == [("spec", FORBIDDEN)]


def test_a_gated_pod_may_be_narrowed() -> None:
    old = pod(schedulingGates=[{"name": "g"}], nodeSelector={"a": "b"})
    assert changed(old, nodeSelector={"a": "b", "c": "d"}) == []
    assert changed(old, nodeSelector={}) == [("spec.nodeSelector", INVALID)]
    wanted = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}}}  # fmt: skip
    assert changed(old, affinity=wanted) == []


def test_a_container_that_ended_for_good_stays_ended() -> None:
    old = pod(restartPolicy="Never")
    ended = {**old, "status": {"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1}}}]}}
    back = {**ended, "status": {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}}
    causes = POD.subresources["status"].validate_update(back, ended)
    assert [(cause.field, cause.reason) for cause in causes] == [("status.containerStatuses[0].state", FORBIDDEN)]


def test_ephemeral_containers_are_added_and_stay() -> None:
    door = POD.subresources["ephemeralcontainers"]
    old = pod()
    debug = {"name": "debug", "image": "x:1", "targetContainerName": "c"}
    new = door.merge({**old, "spec": {**old["spec"], "ephemeralContainers": [debug], "hostname": "h"}}, old)
    assert door.validate_update(new, old) == []
    assert "hostname" not in new["spec"]
    assert new["spec"]["ephemeralContainers"][0]["imagePullPolicy"] == "IfNotPresent"
    gone = door.merge({**new, "spec": old["spec"]}, new)
    assert [cause.field for cause in door.validate_update(gone, new)] == ["spec.ephemeralContainers"]
