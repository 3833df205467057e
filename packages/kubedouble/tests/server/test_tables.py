"""What ``kubectl get`` shows. The expected ages are those of apimachinery's own duration tests."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubedouble.pod_cells import human_duration
from kubedouble.resources import BUILT_IN, ResourceInfo
from kubedouble.tables import find, render_table

JSON = dict[str, Any]
NOW = datetime(2024, 5, 1, 12, 0, 0, tzinfo=UTC)
MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"), (-1, "0s"), (0, "0s"), (1, "1s"), (70, "70s"), (119, "119s"),
        (2 * MINUTE, "2m"), (2 * MINUTE + 1, "2m1s"), (9 * MINUTE + 59, "9m59s"), (10 * MINUTE, "10m"),
        (179 * MINUTE, "179m"), (3 * HOUR, "3h"), (7 * HOUR + 59 * MINUTE, "7h59m"), (8 * HOUR, "8h"),
        (47 * HOUR, "47h"), (2 * DAY, "2d"), (2 * DAY + HOUR, "2d1h"), (8 * DAY + HOUR, "8d"),
        (729 * DAY, "729d"), (2 * YEAR, "2y"), (2 * YEAR + DAY, "2y1d"), (8 * YEAR, "8y"), (50 * YEAR, "50y"),
    ],
)  # fmt: skip
def test_ages_read_as_kubectl_prints_them(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


def resource(plural: str, group: str = "") -> ResourceInfo:
    return next(each for each in BUILT_IN if (each.plural, each.group) == (plural, group))


def row(plural: str, obj: JSON, group: str = "") -> JSON:
    obj = {
        **obj,
        "metadata": {"name": "a", "creationTimestamp": "2024-05-01T11:00:00Z", **obj.get("metadata", {})},
    }
    columns, rows = render_table(resource(plural, group), [obj], now=NOW)
    assert len(columns) == len(rows[0])
    return {column["name"]: cell for column, cell in zip(columns, rows[0], strict=True)}


def test_every_builtin_kind_has_a_cell_per_column() -> None:
    for each in BUILT_IN:
        columns, rows = render_table(each, [{"metadata": {"name": "x"}}], now=NOW)
        assert len(columns) == len(rows[0]), each.plural


def test_a_node_shows_readiness_roles_and_version() -> None:
    cells = row("nodes", {
        "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/gpu": ""}},
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.32.0"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    })  # fmt: skip
    assert cells["Status"] == "Ready,SchedulingDisabled"
    assert cells["Roles"] == "gpu,worker"
    assert (cells["Age"], cells["Version"], cells["Internal-IP"]) == ("60m", "v1.32.0", "10.0.0.1")


@pytest.mark.parametrize(
    ("conditions", "status"),
    [([], "Unknown"), ([{"type": "Ready", "status": "False"}], "NotReady"),
     ([{"type": "Ready", "status": "Unknown"}], "NotReady")],
)  # fmt: skip
def test_node_without_a_ready_condition_is_not_ready(conditions: list[JSON], status: str) -> None:
    assert row("nodes", {"status": {"conditions": conditions}})["Status"] == status


GATED = {"type": "PodScheduled", "reason": "SchedulingGated"}


def container(**state: JSON) -> JSON:
    return {"name": "c", "ready": "running" in state, "restartCount": 1, "state": state}


@pytest.mark.parametrize(
    ("pod", "ready", "status"),
    [
        ({"status": {"phase": "Pending"}}, "0/1", "Pending"),
        ({"status": {"phase": "Running", "containerStatuses": [container(running={})]}}, "1/1", "Running"),
        ({"status": {"containerStatuses": [container(waiting={"reason": "Bad"})]}}, "0/1", "Bad"),
        ({"status": {"containerStatuses": [container(terminated={"exitCode": 3})]}}, "0/1", "ExitCode:3"),
        ({"status": {"containerStatuses": [container(terminated={"signal": 9})]}}, "0/1", "Signal:9"),
        ({"status": {"initContainerStatuses": [container(running={})]}}, "0/1", "Init:0/0"),
        ({"status": {"phase": "Failed", "reason": "Evicted"}}, "0/1", "Evicted"),
        ({"metadata": {"deletionTimestamp": "2024-05-01T11:00:00Z"}}, "0/1", "Terminating"),
        ({"status": {"conditions": [GATED]}}, "0/1", "SchedulingGated"),
    ],
)  # fmt: skip
def test_a_pod_is_described_in_one_word(pod: JSON, ready: str, status: str) -> None:
    cells = row("pods", {"spec": {"containers": [{"name": "c"}]}, **pod})
    assert (cells["Ready"], cells["Status"]) == (ready, status)


def test_a_pod_says_when_it_last_restarted() -> None:
    finished = (NOW - timedelta(minutes=5)).isoformat()
    status = {
        **container(running={}),
        "restartCount": 3,
        "lastState": {"terminated": {"finishedAt": finished}},
    }
    cells = row("pods", {"spec": {"containers": [{"name": "c"}]}, "status": {"containerStatuses": [status]}})
    assert cells["Restarts"] == "3 (5m ago)"


def test_both_forms_of_an_event_read_the_same() -> None:
    core = row("events", {"involvedObject": {"kind": "Node", "name": "n1"}, "message": "m", "count": 4,
                          "lastTimestamp": "2024-05-01T11:59:00Z",
                          "source": {"component": "kubelet"}})  # fmt: skip
    new = row("events", {"regarding": {"kind": "Node", "name": "n1"}, "note": "m", "deprecatedCount": 4,
                         "deprecatedLastTimestamp": "2024-05-01T11:59:00Z",
                         "deprecatedSource": {"component": "kubelet"}}, "events.k8s.io")  # fmt: skip
    assert core == new
    assert (core["Object"], core["Last Seen"], core["Count"]) == ("node/n1", "60s", 4)


def test_policies_show_their_contents_and_selectors() -> None:
    group = "admissionregistration.k8s.io"
    spec: JSON = {"validations": [{}, {}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
    cells = row("validatingadmissionpolicies", {"spec": spec}, group)
    assert cells == {"Name": "a", "Validations": 2, "ParamKind": "v1/ConfigMap", "Age": "60m"}
    spec = {"policyName": "p", "paramRef": {"name": "m"}}
    cells = row("validatingadmissionpolicybindings", {"spec": spec}, group)
    assert cells == {"Name": "a", "PolicyName": "p", "ParamRef": "*/m", "Age": "60m"}
    spec = {"podSelector": {"matchLabels": {"app": "web"}}}
    cells = row("networkpolicies", {"spec": spec}, "networking.k8s.io")
    assert cells == {"Name": "a", "Pod-Selector": "app=web", "Age": "60m"}


def test_custom_kind_shows_the_columns_of_its_definition() -> None:
    custom = ResourceInfo("t.io", "v1", "zoos", "zoo", "Zoo", namespaced=False, custom=True)
    columns: list[JSON] = [
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Born", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Missing", "type": "integer", "jsonPath": ".spec.nothing", "priority": 1},
    ]
    zoo = {"metadata": {"name": "z", "creationTimestamp": "2024-05-01T10:00:00Z"},
           "status": {"conditions": [{"type": "Ready", "status": "True"}]}}  # fmt: skip
    definitions, rows = render_table(custom, [zoo], printer_columns=columns, now=NOW)
    assert [each["name"] for each in definitions] == ["Name", "Ready", "Born", "Missing"]
    assert rows == [["z", "True", "120m", None]]
    assert [each["name"] for each in render_table(custom, [zoo], now=NOW)[0]] == ["Name", "Age"]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", [1]), ("{.a.b}", [1]), (".l[0].n", ["x"]), (".l[*].n", ["x", "y"]), (".l[-1].n", ["y"]),
        (".m.a\\.b", [2]), (".m['a.b']", [2]), ('.l[?(@.n=="y")].v', [7]), (".none", []), (".l[9]", []),
        (".a.b.c", []), ("???", []),
    ],
)  # fmt: skip
def test_printer_columns_read_the_usual_paths(path: str, found: list[Any]) -> None:
    value = {"a": {"b": 1}, "m": {"a.b": 2}, "l": [{"n": "x"}, {"n": "y", "v": 7}]}
    assert find(value, path) == found
