"""Objects as they are stored, against what a real API server returns for the same input."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedouble.errors import StatusError
from kubedouble.quantities import parse_quantity
from kubedouble.schema.decoding import Undecodable, WrongType, canonical_scalar, canonical_time
from kubedouble.schema.kinds import builtin_schema
from kubedouble.schema.normalization import normalize
from kubedouble.schema.structure import Schema, Shape

JSON = dict[str, Any]


def schema_of(kind: str, group: str = "") -> Schema:
    schema = builtin_schema(group, "v1", kind)
    assert schema is not None
    return schema


POD = schema_of("Pod")
NODE = schema_of("Node")


def pod(**spec: Any) -> JSON:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def stored(obj: JSON, schema: Schema = POD) -> JSON:
    return normalize(obj, schema, field_validation="Strict")[0]


def test_integer_that_python_does_not_print_is_refused() -> None:
    for field in ("INTEGER", "QUANTITY"):
        with pytest.raises((Undecodable, WrongType)):
            canonical_scalar(10**5000, Schema(Shape[field]))


def refusal(obj: JSON, schema: Schema = POD, **options: Any) -> StatusError:
    with pytest.raises(StatusError) as caught:
        normalize(obj, schema, **{"field_validation": "Strict", **options})
    return caught.value


def test_a_pod_gets_the_defaults_clients_rely_on() -> None:
    spec = stored(pod(containers=[{"name": "c", "image": "nginx"}]))["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["containers"][0]["imagePullPolicy"] == "Always"
    assert spec["containers"][0]["resources"] == {}
    assert "tolerations" not in spec


@pytest.mark.parametrize(
    ("image", "policy"),
    [("a", "Always"), ("a:latest", "Always"), ("a:1", "IfNotPresent"), ("r:5000/a", "Always"),
     ("r:5000/a:1", "IfNotPresent"), ("a@sha256:00", "IfNotPresent"), ("", "Always")],
)  # fmt: skip
def test_the_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    container = stored(pod(containers=[{"name": "c", "image": image}]))["spec"]["containers"][0]
    assert container["imagePullPolicy"] == policy


def test_missing_requests_are_taken_from_limits() -> None:
    resources = {"limits": {"cpu": "2000m", "memory": "1Gi"}, "requests": {"cpu": "0.5"}}
    container = stored(pod(containers=[{"name": "c", "image": "i", "resources": resources}]))
    assert container["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "2", "memory": "1Gi"},
        "requests": {"cpu": "500m", "memory": "1Gi"},
    }


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("1000m", "1"),
        (2, "2"),
        (0.5, "500m"),
        ("1e3", "1e3"),
        ("0.1m", "100u"),
        ("1024Ki", "1Mi"),
        (None, "0"),
    ],
)
def test_amounts_are_stored_in_canonical_form(sent: Any, kept: str) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {}, "status": {"capacity": {"x": sent}}}
    assert stored(node, NODE)["status"]["capacity"] == {"x": kept}


def test_omitted_node_fields_read_as_go_prints_them() -> None:
    node = stored(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1"}}},
        NODE,
    )
    assert node["spec"] == {}
    assert node["status"]["nodeInfo"]["kubeletVersion"] == ""
    assert node["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
    assert node["status"]["allocatable"] == {"cpu": "1"}


def test_zeros_are_left_out_unless_they_mean_something() -> None:
    result = stored(pod(hostNetwork=False, automountServiceAccountToken=False, nodeSelector={}, hostname="",
                        containers=[{"name": "c", "image": "i"}], tolerations=[], affinity=None))  # fmt: skip
    assert not result["spec"].keys() & {"hostNetwork", "nodeSelector", "hostname", "tolerations", "affinity"}
    assert result["spec"]["automountServiceAccountToken"] is False


def test_an_empty_volume_source_is_kept() -> None:
    assert stored(pod(volumes=[{"name": "v", "emptyDir": {}}]))["spec"]["volumes"] == [
        {"name": "v", "emptyDir": {}}
    ]


GO = "json: cannot unmarshal"
FIELD = "into Go struct field PodSpec.spec"
FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        (pod(foo=1), 'strict decoding error: unknown field "spec.foo"'),
        (
            pod(containers=[{"imagee": ""}]),
            'strict decoding error: unknown field "spec.containers[0].imagee"',
        ),
        ({**pod(b=1), "a": 1}, 'strict decoding error: unknown field "spec.b", unknown field "a"'),
        (pod(nodeName=5), f"{GO} number {FIELD}.nodeName of type string"),
        (pod(containers={}), f"{GO} object {FIELD}.containers of type []v1.Container"),
        (pod(hostNetwork="yes"), f"{GO} string {FIELD}.hostNetwork of type bool"),
        (pod(activeDeadlineSeconds=1.5), f"{GO} number 1.5 {FIELD}.activeDeadlineSeconds of type int64"),
        (pod(priority=2**31), f"{GO} number {2**31} {FIELD}.priority of type int32"),
        (pod(overhead={"cpu": "1x"}), FORM),
        (pod(overhead={"cpu": "1MM"}), "unable to parse quantity's suffix"),
    ],
)
def test_unreadable_values_are_refused_in_the_servers_words(obj: JSON, why: str) -> None:
    error = refusal(obj)
    assert (error.code, error.reason) == (400, "BadRequest")
    assert error.message.startswith('Pod in version "v1" cannot be handled as a Pod: ')
    assert set(error.message.split(": ", 1)[1].split(", ")) == set(why.split(", ")) or error.message.endswith(
        why
    )


def test_a_label_that_is_a_number_is_refused() -> None:
    error = refusal({**pod(), "metadata": {"labels": {"a": 5}}})
    assert error.message.endswith(
        "cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"
    )


def test_patch_that_makes_a_bad_object_is_invalid() -> None:
    error = refusal(pod(foo=1), patch='{"foo":1}')
    assert (error.code, error.reason) == (422, "Invalid")
    why = 'strict decoding error: unknown field "spec.foo"'
    assert error.message == f' "" is invalid: patch: Invalid value: "{{\\"foo\\":1}}": {why}'


@pytest.mark.parametrize(("validation", "warned"), [("Warn", True), ("Ignore", False)])
def test_unknown_fields_are_dropped_and_warned_if_asked(validation: str, warned: bool) -> None:
    result, warnings = normalize(pod(foo=1), POD, field_validation=validation)
    assert "foo" not in result["spec"]
    assert warnings == (('unknown field "spec.foo"',) if warned else ())


def test_a_secret_takes_strings_and_keeps_base64() -> None:
    schema, empty = schema_of("Secret"), {"apiVersion": "v1", "kind": "Secret", "metadata": {}}
    secret = stored({**empty, "stringData": {"a": "x"}, "data": {"b": "eQ=="}}, schema)
    assert secret["data"] == {"a": "eA==", "b": "eQ=="}
    assert "stringData" not in secret
    assert secret["type"] == "Opaque"
    error = refusal({**empty, "data": {"a": "&"}}, schema)
    assert "illegal base64 data at input byte 0" in error.message


def test_a_webhook_gets_its_defaults() -> None:
    schema = schema_of("MutatingWebhookConfiguration", "admissionregistration.k8s.io")
    client = {"service": {"name": "s", "namespace": "n"}}
    sent = {"name": "a.b.c", "clientConfig": client, "rules": [{"operations": ["*"]}]}
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    webhook = stored({**kind, "metadata": {}, "webhooks": [sent]}, schema)["webhooks"][0]
    assert webhook["failurePolicy"] == "Fail"
    assert webhook["matchPolicy"] == "Equivalent"
    assert webhook["timeoutSeconds"] == 10
    assert webhook["reinvocationPolicy"] == "Never"
    assert webhook["namespaceSelector"] == webhook["objectSelector"] == {}
    assert webhook["rules"][0]["scope"] == "*"
    assert webhook["clientConfig"]["service"]["port"] == 443
    assert "sideEffects" not in webhook


def test_a_definition_gets_its_names() -> None:
    schema = schema_of("CustomResourceDefinition", "apiextensions.k8s.io")
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {}}
    names = {"plural": "zoos", "kind": "Zoo"}
    spec = stored({**kind, "spec": {"group": "t.io", "names": names}}, schema)["spec"]
    assert spec["names"] == {"plural": "zoos", "kind": "Zoo", "singular": "zoo", "listKind": "ZooList"}
    assert spec["conversion"] == {"strategy": "None"}


@pytest.mark.parametrize(
    ("text", "micro", "kept"),
    [
        ("2024-01-01T00:00:00Z", False, "2024-01-01T00:00:00Z"),
        ("2024-01-01T02:00:00.9+02:00", False, "2024-01-01T00:00:00Z"),
        ("2024-01-01T00:00:00.123456Z", True, "2024-01-01T00:00:00.123456Z"),
        ("2024-01-01T02:00:00.000001+02:00", True, "2024-01-01T00:00:00.000001Z"),
    ],
)
def test_times_are_stored_in_utc(text: str, micro: bool, kept: str) -> None:
    assert canonical_time(text, micro=micro) == kept


@pytest.mark.parametrize(
    ("text", "micro"),
    [("", False), ("now", False), ("2024-01-01", False), ("2024-13-01T00:00:00Z", False),
     ("2024-01-01T00:00:00Z", True), ("2024-01-01T00:00:00", False), ("2024-01-01T00:00:00.1234567Z", True)],
)  # fmt: skip
def test_what_is_no_time_is_refused(text: str, micro: bool) -> None:
    with pytest.raises(Undecodable):
        canonical_time(text, micro=micro)


@given(st.text(max_size=12) | st.from_regex(r"[+-]?[0-9.]{1,6}[a-zA-Z]{0,3}", fullmatch=True))
def test_quantity_is_canonical_after_one_pass_or_refused(text: str) -> None:
    try:
        amount, once = parse_quantity(text)
    except ValueError:
        return
    assert parse_quantity(once) == (amount, once)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**40)
    | st.floats(allow_nan=False, width=16)
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from([*sorted(POD.fields["spec"].schema.fields), "nonsense"])


@given(st.dictionaries(fields, json_values | st.just({"cpu": "1"}) | st.just([{"name": "c"}]), max_size=5))
def test_a_stored_object_decodes_to_itself(spec: JSON) -> None:
    try:
        once, _ = normalize(pod(**spec), POD, field_validation="Ignore")
    except StatusError:
        return
    assert normalize(once, POD, field_validation="Strict") == (once, ())
    assert normalize(once, POD, base=once)[0] is once
