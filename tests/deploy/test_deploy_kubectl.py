"""The manifests under deploy/, applied and deleted by the real kubectl."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from api_process import local_api_server
from kubectl import KUBECTLS, Kubectl

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture(scope="module", params=KUBECTLS or [""])
def kubectl(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """Each kubectl there is, logged in to an API server that the tests share."""
    if not request.param:
        pytest.skip("there is no kubectl on PATH, and KUBEDOUBLE_TEST_KUBECTL names none")
    directory = tmp_path_factory.mktemp("kubectl")
    with local_api_server(directory) as kubeconfig:
        yield Kubectl(request.param, kubeconfig, directory)


def test_topology_crd_is_served_with_its_short_name(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", str(DEPLOY / "prerequisites" / "noderesourcetopology-crd.yaml"))
    definition = "customresourcedefinition/noderesourcetopologies.topology.node.k8s.io"
    kubectl("wait", "--for=condition=Established", definition, "--timeout=60s")
    body = {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n1"},
        "topologyPolicies": ["None"],
        "zones": [],
    }
    kubectl("apply", "-f", "-", stdin=body)
    header, row = kubectl("get", "node-res-topo", "n1").splitlines()
    assert header.split() == ["NAME", "AGE"]
    assert row.split()[0] == "n1"
    assert "zones" in kubectl("explain", "noderesourcetopology")


def test_the_shipped_manifests_apply_twice(kubectl: Kubectl) -> None:
    kubectl.needs(21)  # the kustomize of older ones takes no folders as resources
    kubectl("apply", "-k", str(DEPLOY / "prerequisites"))
    created = kubectl("apply", "-k", str(DEPLOY))
    assert "deployment.apps/corewise-manager created" in created
    assert "poddisruptionbudget.policy/corewise-manager created" in created
    again = kubectl("apply", "-k", str(DEPLOY))
    assert "created" not in again
    assert "configured" not in again
    assert "2" in kubectl("get", "deployment", "-n", "corewise-system", "--no-headers")


def test_deleting_manifests_keeps_namespace_configuration_and_crd(kubectl: Kubectl) -> None:
    kubectl.needs(21)
    kubectl("apply", "-k", str(DEPLOY / "prerequisites"))
    kubectl("create", "configmap", "slo-controller-config", "-n", "corewise-system", "--from-literal=a=b")
    kubectl("apply", "-k", str(DEPLOY))
    kubectl("delete", "-k", str(DEPLOY))
    assert "slo-controller-config" in kubectl("get", "configmaps", "-n", "corewise-system")
    assert "noderesourcetopologies" in kubectl("get", "customresourcedefinitions", "-o", "name")
    assert kubectl("get", "deployments", "-n", "corewise-system", "-o", "name") == ""


def test_the_autoscaler_on_real_utilization_is_accepted(kubectl: Kubectl) -> None:
    applied = kubectl("apply", "-f", str(DEPLOY / "autoscaling" / "hpa.yaml"))
    assert applied == "horizontalpodautoscaler.autoscaling/web created\n"
