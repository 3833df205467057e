"""Stock kubectl, the real binary: reading and writing objects."""

from __future__ import annotations

import pytest
import yaml

from kubectl import Kubectl, a_map, a_node, a_pod


def test_get_prints_a_table(kubectl: Kubectl, node: str) -> None:
    header, row = kubectl("get", "node", node).splitlines()
    assert header.split() == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert row.split()[:3] == [node, "Ready", "<none>"]
    assert row.split()[-1] == "v1.36.0"


def test_get_wide_adds_columns(kubectl: Kubectl, node: str) -> None:
    header, row = kubectl("get", "node", node, "-o", "wide").splitlines()
    assert "INTERNAL-IP" in header
    assert "CONTAINER-RUNTIME" in header
    assert "10.0.0.1" in row


def test_get_shows_labels_as_columns(kubectl: Kubectl, node: str) -> None:
    header, row = kubectl("get", "nodes", "-l", f"kubernetes.io/hostname={node}", "-L", "disk").splitlines()
    assert header.split()[-1] == "DISK"
    assert row.split()[-1] == "ssd"
    assert "disk=ssd" in kubectl("get", "node", node, "--show-labels")


def test_get_prints_json_yaml_and_names(kubectl: Kubectl, node: str) -> None:
    assert kubectl.json("get", "node", node)["kind"] == "Node"
    assert yaml.safe_load(kubectl("get", "node", node, "-o", "yaml"))["metadata"]["name"] == node
    assert kubectl("get", "node", node, "-o", "name") == f"node/{node}\n"


def test_get_prints_jsonpath_and_custom_columns(kubectl: Kubectl, node: str) -> None:
    assert kubectl("get", "node", node, "-o", "jsonpath={.status.allocatable.cpu}") == "7500m"
    columns = "custom-columns=NODE:.metadata.name,CPU:.status.capacity.cpu"
    assert kubectl("get", "node", node, "-o", columns).split() == ["NODE", "CPU", node, "8"]


def test_get_of_what_is_not_there_says_so(kubectl: Kubectl, name: str) -> None:
    assert f'nodes "{name}" not found' in kubectl.refused("get", "node", name)


def test_get_sorts(kubectl: Kubectl, node: str) -> None:
    assert node in kubectl("get", "nodes", "--sort-by=.status.capacity.cpu")


def test_get_pages_through_long_lists(kubectl: Kubectl, name: str) -> None:
    maps = [a_map(f"{name}-{number:02}") for number in range(25)]
    kubectl("create", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": maps})
    shown = kubectl("get", "configmaps", "--chunk-size=10", "--no-headers")
    assert shown.count(name) == 25


def test_get_selects_by_label_and_field(kubectl: Kubectl, node: str, name: str) -> None:
    kubectl("create", "-f", "-", stdin=a_pod(name, nodeName=node))
    selected = kubectl("get", "pods", "-A", f"--field-selector=spec.nodeName={node}", "-o", "name")
    assert selected == f"pod/{name}\n"
    assert kubectl("get", "pods", "-l", f"app={name}", "-o", "name") == f"pod/{name}\n"
    kubectl("delete", "pod", name, "--force", "--grace-period=0")


def test_describe_node_adds_up_its_pods(kubectl: Kubectl, node: str, name: str) -> None:
    kubectl("create", "-f", "-", stdin=a_pod(name, nodeName=node))
    described = kubectl("describe", "node", node)
    kubectl("delete", "pod", name, "--force", "--grace-period=0")
    assert f"Name:               {node}" in described
    assert "cpu                2 (26%)   4 (53%)" in described
    assert "Non-terminated Pods:          (1 in total)" in described


def test_describe_other_kinds(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "-f", "-", stdin=a_pod(name))
    assert "example.invalid/app" in kubectl("describe", "pod", name)
    kubectl("delete", "pod", name, "--force", "--grace-period=0")
    kubectl("create", "-f", "-", stdin=a_map(name, key="the value"))
    assert "the value" in kubectl("describe", "configmap", name)
    assert "Status:       Active" in kubectl("describe", "namespace", "default")


def test_apply_creates_configures_and_leaves_unchanged(kubectl: Kubectl, name: str) -> None:
    assert kubectl("apply", "-f", "-", stdin=a_map(name, key="1")) == f"configmap/{name} created\n"
    assert kubectl("apply", "-f", "-", stdin=a_map(name, key="2")) == f"configmap/{name} configured\n"
    assert kubectl("apply", "-f", "-", stdin=a_map(name, key="2")) == f"configmap/{name} unchanged\n"
    assert kubectl("apply", "-f", "-", stdin=a_map(name, other="3")) == f"configmap/{name} configured\n"
    assert kubectl.json("get", "configmap", name)["data"] == {"other": "3"}


def test_apply_server_side_owns_fields_and_conflicts(kubectl: Kubectl, name: str) -> None:
    server_side = ("apply", "--server-side", "-f", "-")
    applied = kubectl(*server_side, "--field-manager=first", stdin=a_map(name, key="1"))
    assert applied == f"configmap/{name} serverside-applied\n"
    refusal = kubectl.refused(*server_side, "--field-manager=second", stdin=a_map(name, key="2"))
    assert 'conflict with "first": .data.key' in refusal
    kubectl(*server_side, "--field-manager=second", "--force-conflicts", stdin=a_map(name, key="2"))
    assert kubectl.json("get", "configmap", name)["data"] == {"key": "2"}


def test_apply_takes_over_from_client_side(kubectl: Kubectl, name: str) -> None:
    kubectl("apply", "-f", "-", stdin=a_map(name, key="1"))
    kubectl("apply", "--server-side", "-f", "-", stdin=a_map(name, key="2"))
    assert kubectl.json("get", "configmap", name)["data"] == {"key": "2"}


def test_apply_in_server_dry_run_stores_nothing(kubectl: Kubectl, name: str) -> None:
    shown = kubectl("apply", "--dry-run=server", "-f", "-", stdin=a_map(name, key="1"))
    assert shown == f"configmap/{name} created (server dry run)\n"
    assert kubectl("get", "configmap", name, "--ignore-not-found") == ""


def test_apply_prunes_nothing_and_reports_unknown_fields(kubectl: Kubectl, name: str) -> None:
    body = {**a_map(name), "bogus": 1}
    kubectl.needs(25)
    assert 'unknown field "bogus"' in kubectl.refused("apply", "-f", "-", stdin=body)
    kubectl("apply", "--validate=ignore", "-f", "-", stdin=body)


def test_diff_shows_what_apply_would_change(kubectl: Kubectl, name: str) -> None:
    kubectl("apply", "-f", "-", stdin=a_map(name, key="1"))
    assert kubectl("diff", "-f", "-", stdin=a_map(name, key="1")) == ""
    different = kubectl.run("diff", "-f", "-", stdin=a_map(name, key="2"))
    assert different.returncode == 1
    assert '-  key: "1"' in different.stdout
    assert '+  key: "2"' in different.stdout


def test_create_makes_namespaces_maps_and_accounts(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "namespace", name)
    kubectl("create", "configmap", name, "--from-literal=key=value", "-n", name)
    kubectl("create", "secret", "generic", name, "--from-literal=key=value", "-n", name)
    kubectl("create", "serviceaccount", name, "-n", name)
    assert kubectl.json("get", "configmap", name, "-n", name)["data"] == {"key": "value"}
    assert kubectl.json("get", "secret", name, "-n", name)["data"] == {"key": "dmFsdWU="}
    if kubectl.minor >= 24:
        assert kubectl("create", "token", name, "-n", name).strip()
    kubectl("delete", "namespace", name)
    assert kubectl("get", "configmap", name, "-n", name, "--ignore-not-found") == ""


def test_create_refuses_what_exists(kubectl: Kubectl, node: str) -> None:
    assert "AlreadyExists" in kubectl.refused("create", "-f", "-", stdin=a_node(node))


def test_replace(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "-f", "-", stdin=a_map(name, key="1"))
    assert kubectl("replace", "-f", "-", stdin=a_map(name, key="2")) == f"configmap/{name} replaced\n"
    assert kubectl.json("get", "configmap", name)["data"] == {"key": "2"}


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("merge", '{"metadata":{"annotations":{"example.com/a":"1"}}}'),
        ("strategic", '{"metadata":{"annotations":{"example.com/a":"1"}}}'),
        ("json", '[{"op":"add","path":"/metadata/annotations","value":{"example.com/a":"1"}}]'),
    ],
)
def test_patch_in_every_type(kubectl: Kubectl, node: str, kind: str, patch: str) -> None:
    assert kubectl("patch", "node", node, "--type", kind, "-p", patch) == f"node/{node} patched\n"
    assert kubectl.json("get", "node", node)["metadata"]["annotations"]["example.com/a"] == "1"
    again = '{"metadata":{"annotations":{"example.com/a":"1"}}}'
    assert kubectl("patch", "node", node, "-p", again) == f"node/{node} patched (no change)\n"


def test_patch_the_status_subresource(kubectl: Kubectl, node: str) -> None:
    kubectl.needs(24)
    kubectl("patch", "node", node, "--subresource=status", "-p", '{"status":{"capacity":{"cpu":"12"}}}')
    assert kubectl("get", "node", node, "-o", "jsonpath={.status.capacity.cpu}") == "12"


def test_label_and_annotate(kubectl: Kubectl, node: str) -> None:
    assert kubectl("label", "node", node, "tier=a") == f"node/{node} labeled\n"
    assert "already has a value" in kubectl.refused("label", "node", node, "tier=b")
    kubectl("label", "node", node, "tier=b", "--overwrite")
    kubectl("label", "node", node, "tier-")
    assert "tier" not in kubectl.json("get", "node", node)["metadata"]["labels"]
    kubectl("annotate", "node", node, "example.com/a=1")
    assert kubectl.json("get", "node", node)["metadata"]["annotations"]["example.com/a"] == "1"
    kubectl("annotate", "node", node, "example.com/a-")
    assert "example.com/a" not in kubectl.json("get", "node", node)["metadata"].get("annotations", {})


def test_taint_and_cordon(kubectl: Kubectl, node: str) -> None:
    assert kubectl("taint", "node", node, "dedicated=x:NoSchedule") == f"node/{node} tainted\n"
    assert kubectl.json("get", "node", node)["spec"]["taints"] == [
        {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    ]
    kubectl("taint", "node", node, "dedicated-")
    kubectl("cordon", node)
    assert "SchedulingDisabled" in kubectl("get", "node", node)
    kubectl("uncordon", node)
    assert "SchedulingDisabled" not in kubectl("get", "node", node)


def test_drain_evicts_the_nodes_pods(kubectl: Kubectl, node: str, name: str) -> None:
    kubectl("create", "-f", "-", stdin=a_pod(name, nodeName=node, terminationGracePeriodSeconds=0))
    assert f"pod/{name} evicted" in kubectl("drain", node, "--force", "--timeout=60s")
    assert kubectl("get", "pod", name, "--ignore-not-found") == ""


def test_delete_by_name_file_and_selector(kubectl: Kubectl, name: str) -> None:
    for suffix in ("a", "b", "c"):
        kubectl("create", "-f", "-", stdin=a_map(f"{name}-{suffix}"))
        kubectl("label", "configmap", f"{name}-{suffix}", f"of={name}")
    assert kubectl("delete", "configmap", f"{name}-a").startswith(f'configmap "{name}-a" deleted')
    kubectl("delete", "-f", "-", stdin=a_map(f"{name}-b"))
    kubectl("delete", "configmap", "-l", f"of={name}")
    assert kubectl("get", "configmap", "-l", f"of={name}", "-o", "name") == ""
