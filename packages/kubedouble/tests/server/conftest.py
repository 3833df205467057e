"""Fixtures for tests that drive programs against the server, and the settings of hypothesis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from kubectl import KUBECTLS, Kubectl, a_node
from kubedouble.testing import run_server

# Timings are never asserted, so a busy machine fails no test. Examples are the same in every run, so that a
# change is judged by what it changed. A profile that a conftest above this one has loaded stays.
settings.register_profile(
    "kubedouble",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    database=None,
    print_blob=True,
)
if settings.get_current_profile_name() in {"default", "ci"}:
    settings.load_profile("kubedouble")


@pytest.fixture(scope="module", params=KUBECTLS or [""])
def kubectl(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """Each kubectl there is, logged in to an API server that the tests of a module share."""
    if not request.param:
        pytest.skip("there is no kubectl on PATH, and KUBEDOUBLE_TEST_KUBECTL names none")
    with run_server() as server:
        yield Kubectl(request.param, server.kubeconfig, tmp_path_factory.mktemp("kubectl"))


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that is this test's own."""
    return str(request.node.name).replace("test_", "").replace("_", "-").split("[")[0][:50]


@pytest.fixture
def node(kubectl: Kubectl, name: str) -> Iterator[str]:
    kubectl("create", "-f", "-", stdin=a_node(name))
    yield name
    kubectl("delete", "node", name, "--ignore-not-found")
