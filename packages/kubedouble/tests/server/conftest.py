"""Fixtures for tests that drive programs against the local API server from outside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from api_process import local_api_server
from kubectl_binary import KUBECTLS, Kubectl, a_node


@pytest.fixture(scope="module", params=KUBECTLS or [""])
def kubectl(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """Each kubectl there is, logged in to an API server that the tests of a module share."""
    if not request.param:
        pytest.skip("there is no kubectl on PATH, and COREWISE_TEST_KUBECTL names none")
    directory = tmp_path_factory.mktemp("kubectl")
    with local_api_server(directory) as kubeconfig:
        yield Kubectl(request.param, kubeconfig, directory)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that is this test's own."""
    return str(request.node.name).replace("test_", "").replace("_", "-").split("[")[0][:50]


@pytest.fixture
def node(kubectl: Kubectl, name: str) -> Iterator[str]:
    kubectl("create", "-f", "-", stdin=a_node(name))
    yield name
    kubectl("delete", "node", name, "--ignore-not-found")
