"""What is wrong with an object: the field, the reason and the words of a real API server."""

from typing import Any

import pytest

from kubedouble.schema.kinds import builtin_schema
from kubedouble.schema.normalization import normalize
from kubedouble.schema.validation import problems

JSON = dict[str, Any]
RBAC, ADMISSION = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
GROUPS = {
    "Role": RBAC, "RoleBinding": RBAC, "ClusterRoleBinding": RBAC, "Lease": "coordination.k8s.io",
    "MutatingWebhookConfiguration": ADMISSION, "Deployment": "apps",
    "CustomResourceDefinition": "apiextensions.k8s.io",
}  # fmt: skip


def stored(kind: str, body: JSON) -> tuple[JSON, Any]:
    group = GROUPS.get(kind, "")
    schema = builtin_schema(group, "v1", kind)
    assert schema is not None
    head = {"apiVersion": f"{group}/v1".lstrip("/"), "kind": kind}
    return normalize({**head, **body, "metadata": {"name": "x", **body.get("metadata", {})}}, schema)[
        0
    ], schema


def faults(kind: str, body: JSON, old: JSON | None = None, **options: str) -> dict[str, str]:
    obj, schema = stored(kind, body)
    before = None if old is None else stored(kind, old)[0]
    return {each["field"]: each["message"] for each in problems(obj, before, schema, **options)}


def container(**more: Any) -> JSON:
    return {"name": "c", "image": "i", **more}


def pod(**more: Any) -> JSON:
    return {"spec": {"containers": [container()], **more}}


def webhook(**more: Any) -> JSON:
    good = {
        "name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://h/p"},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["nodes"]}],
    }  # fmt: skip
    return {"webhooks": [{key: value for key, value in {**good, **more}.items() if value is not None}]}


MWC = "MutatingWebhookConfiguration"
C = "spec.containers[0]"
KEYLESS = (
    'Invalid value: "Equal": operator must be Exists when `key` is empty, which means '
    '"match all values and all keys"'
)
NOT_HTTPS = (
    "Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]"
)
BAD_PORT = "must be between 1 and 65535, inclusive"


@pytest.mark.parametrize(
    ("kind", "body", "field", "message"),
    [
        ("Pod", {"spec": {}}, "spec.containers", "Required value"),
        ("Pod", pod(containers=[{"name": "c"}]), f"{C}.image", "Required value"),
        ("Pod", pod(containers=[{"image": "i"}]), f"{C}.name", "Required value"),
        (
            "Pod",
            pod(containers=[container(), container()]),
            "spec.containers[1].name",
            'Duplicate value: "c"',
        ),
        (
            "Pod",
            pod(restartPolicy="Sometimes"),
            "spec.restartPolicy",
            'Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
        ),
        (
            "Pod",
            pod(containers=[container(ports=[{"containerPort": 70000}])]),
            f"{C}.ports[0].containerPort",
            f"Invalid value: 70000: {BAD_PORT}",
        ),
        (
            "Pod",
            pod(containers=[container(resources={"requests": {"cpu": "-1"}})]),
            f"{C}.resources.requests[cpu]",
            'Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            "Pod",
            pod(containers=[container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})]),
            f"{C}.resources.requests",
            'Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        (
            "Pod",
            pod(containers=[container(resources={"requests": {"a.b/gpu": "1"}})]),
            f"{C}.resources.limits",
            "Required value: Limit must be set for non overcommitable resources",
        ),
        (
            "Pod",
            pod(containers=[container(resources={"limits": {"a.b/gpu": "500m"}})]),
            f"{C}.resources.limits[a.b/gpu]",
            'Invalid value: "500m": must be an integer',
        ),
        (
            "Pod",
            pod(containers=[container(volumeMounts=[{"name": "v", "mountPath": "/x"}])]),
            f"{C}.volumeMounts[0].name",
            'Not found: "v"',
        ),
        (
            "Pod",
            pod(volumes=[{"name": "v"}]),
            "spec.volumes[0]",
            "Required value: must specify a volume type",
        ),
        ("Pod", pod(tolerations=[{"operator": "Equal"}]), "spec.tolerations[0].operator", KEYLESS),
        (
            "Pod",
            pod(containers=[container(livenessProbe={})]),
            f"{C}.livenessProbe",
            "Required value: must specify a handler type",
        ),
        (
            "Node",
            {"status": {"capacity": {"cpu": "-1"}}},
            "status.capacity.cpu",
            'Invalid value: "-1": must be greater than or equal to 0',
        ),
        ("Node", {"spec": {"taints": [{"key": "a"}]}}, "spec.taints[0].effect", "Required value"),
        (
            "Node",
            {"spec": {"taints": [{"key": "a", "effect": "Maybe"}]}},
            "spec.taints[0].effect",
            'Unsupported value: "Maybe": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
        ),
        ("ConfigMap", {"data": {"a": "", "..": ""}}, "data[..]", "Invalid value: \"..\": must not be '..'"),
        (
            "ConfigMap",
            {"data": {"a": ""}, "binaryData": {"a": ""}},
            "data[a]",
            'Invalid value: "a": duplicate of key present in binaryData',
        ),
        ("ConfigMap", {"data": {"a": "x" * 2**20 + "x"}}, "", "Too long: may not be more than 1048576 bytes"),
        ("Service", {"spec": {}}, "spec.ports", "Required value"),
        (
            "Service",
            {"spec": {"ports": [{"port": 0}]}},
            "spec.ports[0].port",
            f"Invalid value: 0: {BAD_PORT}",
        ),
        (
            "Lease",
            {"spec": {"leaseDurationSeconds": 0}},
            "spec.leaseDurationSeconds",
            "Invalid value: 0: must be greater than 0",
        ),
        (
            "Lease",
            {"spec": {"leaseTransitions": -1}},
            "spec.leaseTransitions",
            "Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "Event",
            {"metadata": {"namespace": "a"}, "involvedObject": {"namespace": "b"}},
            "involvedObject.namespace",
            'Invalid value: "b": does not match event.namespace',
        ),
        (
            "Event",
            {"metadata": {"namespace": "default"}, "eventTime": "2024-01-01T00:00:00.000000Z"},
            "reportingController",
            "Required value",
        ),
        (
            "Role",
            {"rules": [{"apiGroups": [""], "resources": ["pods"]}]},
            "rules[0].verbs",
            "Required value: verbs must contain at least one value",
        ),
        (
            "Role",
            {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
            "rules[0].nonResourceURLs",
            'Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs',
        ),
        (
            "ClusterRoleBinding",
            {"roleRef": {"kind": "Role", "name": "r"}},
            "roleRef.kind",
            'Unsupported value: "Role": supported values: "ClusterRole"',
        ),
        (
            "RoleBinding",
            {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": "s"}]},
            "subjects[0].namespace",
            "Required value",
        ),
        (
            MWC,
            webhook(sideEffects=None),
            "webhooks[0].sideEffects",
            "Required value: must specify one of None, NoneOnDryRun",
        ),
        (
            MWC,
            webhook(admissionReviewVersions=[]),
            "webhooks[0].admissionReviewVersions",
            "Required value: must specify one of v1, v1beta1",
        ),
        (
            MWC,
            webhook(timeoutSeconds=31),
            "webhooks[0].timeoutSeconds",
            "Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        ),
        (
            MWC,
            webhook(name="a.b"),
            "webhooks[0].name",
            'Invalid value: "a.b": should be a domain with at least three segments separated by dots',
        ),
        (
            MWC,
            webhook(clientConfig={}),
            "webhooks[0].clientConfig",
            "Required value: exactly one of url or service is required",
        ),
        (MWC, webhook(clientConfig={"url": "http://h"}), "webhooks[0].clientConfig.url", NOT_HTTPS),
        (
            MWC,
            webhook(failurePolicy="Shrug"),
            "webhooks[0].failurePolicy",
            'Unsupported value: "Shrug": supported values: "Fail", "Ignore"',
        ),
        (
            "Deployment",
            {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pod()}},
            "spec.template.metadata.labels",
            "Invalid value: {}: `selector` does not match template `labels`",
        ),
        (
            "CustomResourceDefinition",
            {"spec": {"group": "t.io", "versions": [{"name": "v1"}]}},
            "spec.versions[0].schema.openAPIV3Schema",
            "Required value: schemas are required",
        ),
    ],
)
def test_fault_names_its_field_as_real_server_does(kind: str, body: JSON, field: str, message: str) -> None:
    assert faults(kind, body)[field] == message


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("Pod", pod(volumes=[{"name": "v", "emptyDir": {}}], tolerations=[{"operator": "Exists"}])),
        (
            "Pod",
            pod(containers=[container(resources={"limits": {"cpu": "1", "kubernetes.io/batch-cpu": "1k"}})]),
        ),
        (
            "Node",
            {
                "spec": {"taints": [{"key": "a/b", "effect": "NoSchedule"}]},
                "status": {"capacity": {"cpu": "1"}},
            },
        ),
        ("ConfigMap", {"data": {"a.b_c-D": "x"}, "binaryData": {"z": "eA=="}}),
        ("Service", {"spec": {"ports": [{"port": 80}]}}),
        ("Lease", {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}}),
        ("Event", {"metadata": {"namespace": "default"}, "involvedObject": {"kind": "Node", "name": "n"}}),
        ("Role", {"rules": [{"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}]}),
        (
            "RoleBinding",
            {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]},
        ),
        (MWC, webhook()),
    ],
)
def test_what_is_right_has_no_fault(kind: str, body: JSON) -> None:
    assert faults(kind, body) == {}


@pytest.mark.parametrize(
    ("kind", "old", "new", "field"),
    [
        ("Pod", pod(), pod(nodeName="n"), "spec"),
        ("Pod", pod(), pod(containers=[container(command=["x"])]), "spec"),
        ("Pod", pod(tolerations=[{"key": "a", "operator": "Exists"}]), pod(), "spec.tolerations"),
        (
            "ConfigMap",
            {"immutable": True, "data": {"a": "1"}},
            {"immutable": True, "data": {"a": "2"}},
            "data",
        ),
        ("ConfigMap", {"immutable": True}, {"immutable": False}, "immutable"),
        ("Secret", {"type": "a"}, {"type": "b"}, "type"),
        ("Node", {"spec": {"providerID": "a"}}, {"spec": {"providerID": "b"}}, "spec.providerID"),
        (
            "RoleBinding",
            {"roleRef": {"kind": "Role", "name": "a"}},
            {"roleRef": {"kind": "Role", "name": "b"}},
            "roleRef",
        ),
        (
            "Deployment",
            {"spec": {"selector": {"matchLabels": {"a": "b"}}}},
            {"spec": {"selector": {"matchLabels": {"a": "c"}}}},
            "spec.selector",
        ),
    ],
)
def test_what_may_not_change_is_guarded(kind: str, old: JSON, new: JSON, field: str) -> None:
    assert field in faults(kind, new, old)


@pytest.mark.parametrize(
    "change",
    [
        {"containers": [container(image="other")]},
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
        {"activeDeadlineSeconds": 5},
    ],
)
def test_running_pod_accepts_new_image_tolerations_and_deadline(change: JSON) -> None:
    assert faults("Pod", pod(**change), pod()) == {}


def test_new_api_event_is_immutable() -> None:
    said = {"action": "a", "reason": "r", "reportingComponent": "c", "reportingInstance": "i"}
    place = {"metadata": {"namespace": "default"}, "eventTime": "2024-01-01T00:00:00.000000Z"}
    event = {**place, **said, "type": "Normal"}
    assert faults("Event", event, api_version="events.k8s.io/v1") == {}
    changed = faults("Event", {**event, "reason": "other"}, event, api_version="events.k8s.io/v1")
    assert changed == {"reason": 'Invalid value: "other": field is immutable'}
    assert faults("Event", {**event, "reason": "other"}, event, api_version="v1") == {}
