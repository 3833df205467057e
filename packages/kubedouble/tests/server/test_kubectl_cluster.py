"""Stock kubectl, the real binary: waiting, watching, asking about the cluster, installing into it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from kubectl import PATIENCE, Kubectl, a_map, until

A_DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "backups.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"kind": "Backup", "plural": "backups", "singular": "backup", "shortNames": ["bak"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"target": {"type": "string"}}}
                },
            }
        ],
    },
}


def test_wait_for_a_condition_and_a_value(kubectl: Kubectl, node: str) -> None:
    kubectl("wait", "--for=condition=Ready", f"node/{node}", "--timeout=60s")
    kubectl.needs(24)
    waiting = kubectl.start(
        "wait", "--for=jsonpath={.status.capacity.cpu}=12", f"node/{node}", "--timeout=60s"
    )
    kubectl("patch", "node", node, "--subresource=status", "-p", '{"status":{"capacity":{"cpu":"12"}}}')
    output, _ = waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 0
    assert output == f"node/{node} condition met\n"


def test_wait_for_deletion(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "-f", "-", stdin=a_map(name))
    waiting = kubectl.start("wait", "--for=delete", f"configmap/{name}", "--timeout=60s")
    kubectl("delete", "configmap", name)
    waiting.communicate(timeout=PATIENCE)
    kubectl.needs(24)  # older ones call it an error when the object is gone before they look
    assert waiting.returncode == 0


def test_wait_gives_up_in_time(kubectl: Kubectl, node: str) -> None:
    said = kubectl.refused("wait", "--for=condition=NeverSeen", f"node/{node}", "--timeout=1s")
    assert "timed out waiting for the condition" in said


def test_get_watch_prints_changes_as_they_come(kubectl: Kubectl, node: str) -> None:
    watching = kubectl.start("get", "node", node, "--watch", "-o", "jsonpath={.metadata.labels.tick}{'\\n'}")
    lines: list[str] = []
    try:
        assert watching.stdout
        lines.append(watching.stdout.readline().strip())
        for tick in ("1", "2"):
            kubectl("label", "node", node, f"tick={tick}", "--overwrite")
            lines.append(watching.stdout.readline().strip())
    finally:
        watching.terminate()
        watching.communicate(timeout=PATIENCE)
    assert lines == ["", "1", "2"]


def test_get_watch_prints_table_rows(kubectl: Kubectl, node: str) -> None:
    watching = kubectl.start("get", "nodes", "--watch", "-l", f"kubernetes.io/hostname={node}")
    try:
        assert watching.stdout
        first = [watching.stdout.readline(), watching.stdout.readline()]
        kubectl("cordon", node)
        changed = watching.stdout.readline()
    finally:
        watching.terminate()
        watching.communicate(timeout=PATIENCE)
    assert first[0].startswith("NAME")
    assert "SchedulingDisabled" in changed


def test_explain(kubectl: Kubectl) -> None:
    explained = kubectl("explain", "node.status.capacity")
    assert re.search(r"KIND: +Node", explained)
    assert "capacity" in explained
    assert "containers" in kubectl("explain", "pod.spec")


def test_api_resources_and_versions(kubectl: Kubectl) -> None:
    resources = kubectl("api-resources", "--no-headers")
    assert "nodes" in resources
    assert "leases" in kubectl("api-resources", "--api-group=coordination.k8s.io")
    assert "admissionregistration.k8s.io/v1" in kubectl("api-versions")
    assert "node" in kubectl("api-resources", "--namespaced=false", "-o", "name")


def test_auth_answers_who_and_what(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "delete", "pods").strip() == "yes"
    assert kubectl.run("auth", "can-i", "delete", "pods", "--as=somebody").stdout.strip() == "no"
    assert "*.*" in kubectl("auth", "can-i", "--list")
    kubectl.needs(28)
    assert "admin" in kubectl("auth", "whoami")


def test_a_refusal_is_shown_as_kubernetes_words_it(kubectl: Kubectl, node: str) -> None:
    said = kubectl.refused("label", "node", node, "a=b", "--as=somebody")
    assert 'nodes "a-refusal' in said
    assert (
        'is forbidden: User "somebody" cannot get resource "nodes" in API group "" at the cluster scope'
        in said
    )


def test_roles_are_created_and_bound(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "clusterrole", name, "--verb=list", "--resource=nodes")
    kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--user={name}")
    assert kubectl("auth", "can-i", "list", "nodes", f"--as={name}").strip() == "yes"
    kubectl("get", "nodes", f"--as={name}")


def test_top_is_refused_clearly(kubectl: Kubectl) -> None:
    assert "Metrics API not available" in kubectl.refused("top", "nodes")


def test_events_are_listed(kubectl: Kubectl, node: str) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{node}.1", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node},
        "reason": "UnknownCPUModel",
        "message": "no ratio for this CPU",
        "type": "Warning",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
        "source": {"component": "example"},
    }
    kubectl("create", "-f", "-", stdin=event)
    assert "UnknownCPUModel" in kubectl("get", "events", "--field-selector", f"involvedObject.name={node}")
    assert "UnknownCPUModel" in kubectl("describe", "node", node)
    kubectl.needs(26)
    assert "no ratio for this CPU" in kubectl("events", "--for", f"node/{node}")


def test_config_view_shows_the_cluster(kubectl: Kubectl) -> None:
    assert "server: https://127.0.0.1:" in kubectl("config", "view", "--minify")
    assert "https://127.0.0.1:" in kubectl("cluster-info")
    assert "Server Version" in kubectl("version")


def test_custom_resources_are_served_with_their_short_name(kubectl: Kubectl, name: str) -> None:
    kubectl("apply", "-f", "-", stdin=A_DEFINITION)
    definition = "customresourcedefinition/backups.example.com"
    kubectl("wait", "--for=condition=Established", definition, "--timeout=60s")
    body = {"apiVersion": "example.com/v1", "kind": "Backup", "metadata": {"name": name}, "target": "disk"}
    kubectl("apply", "-f", "-", stdin=body)
    header, row = kubectl("get", "bak", name).splitlines()
    assert header.split() == ["NAME", "AGE"]
    assert row.split()[0] == name
    assert "target" in kubectl("explain", "backup")


def test_a_kustomization_applies_twice_and_is_deleted(kubectl: Kubectl, name: str, tmp_path: Path) -> None:
    kubectl.needs(21)  # the kustomize of older ones takes no folders as resources
    kubectl("create", "namespace", name)
    kubectl("create", "configmap", "kept", "-n", name, "--from-literal=a=b")
    labels = {"app": name}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "example.invalid/app"}]},
            },
        },
    }
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "web.json").write_text(json.dumps(deployment))
    (tmp_path / "base" / "kustomization.yaml").write_text("resources: [web.json]\n")
    (tmp_path / "kustomization.yaml").write_text(f"namespace: {name}\nresources: [base]\n")
    assert kubectl("apply", "-k", str(tmp_path)) == "deployment.apps/web created\n"
    assert kubectl("apply", "-k", str(tmp_path)) == "deployment.apps/web unchanged\n"
    assert "2" in kubectl("get", "deployment", "-n", name, "--no-headers")
    kubectl("delete", "-k", str(tmp_path))
    assert kubectl("get", "deployments", "-n", name, "-o", "name") == ""
    assert "configmap/kept" in kubectl("get", "configmaps", "-n", name, "-o", "name")


def test_deleting_a_namespace_deletes_what_is_in_it(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "namespace", name)
    kubectl("create", "-n", name, "-f", "-", stdin=a_map(name))
    kubectl("delete", "namespace", name, "--wait=false")
    until(lambda: kubectl("get", "namespace", name, "--ignore-not-found") == "")


def test_what_kubectl_edit_sends_is_taken(kubectl: Kubectl, name: str, tmp_path: Path) -> None:
    """``kubectl edit`` with an editor that changes one value: a strategic patch of the difference."""
    kubectl("create", "-f", "-", stdin=a_map(name, key="1"))
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i \'s/key: "1"/key: "2"/\' "$1"\n')
    editor.chmod(0o755)
    kubectl.environment["KUBE_EDITOR"] = str(editor)
    assert kubectl("edit", "configmap", name) == f"configmap/{name} edited\n"
    assert kubectl.json("get", "configmap", name)["data"] == {"key": "2"}
