"""Credentials: a cloud of clouds.yaml, OS_* variables, [placement] of nova.conf; and what is wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from corewise_openstack.openstack.embedded import served, start
from corewise_openstack.openstack.errors import (
    CredentialsError,
    PlacementDown,
    PlacementNotFound,
    PlacementUnauthorized,
)
from corewise_openstack.openstack.nova_conf import read_nova_conf
from corewise_openstack.openstack.placement_access import (
    cloud_client,
    endpoint_client,
    nova_conf_client,
    quietly,
)
from corewise_openstack.openstack.placement_client import PlacementClient
from keystone_server import PASSWORD, running_keystone


@pytest.fixture(scope="module")
def auth_url() -> Iterator[str]:
    with served(start()) as placement, running_keystone(placement) as address:
        yield address


@pytest.fixture(autouse=True)
def nobodys_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No cloud of the person who runs the tests, nor of an earlier test: openstacksdk keeps them."""
    with quietly():
        monkeypatch.setattr("openstack.config.defaults._defaults", None)
    for name in [each for each in os.environ if each.startswith(("OS_", "REQUESTS_CA"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    monkeypatch.chdir(tmp_path)


def clouds(tmp_path: Path, auth_url: str, password: str) -> None:
    (tmp_path / "clouds.yaml").write_text(
        f"""
clouds:
  here:
    auth:
      auth_url: {auth_url}
      username: nova
      password: {password}
      project_name: service
      user_domain_name: Default
      project_domain_name: Default
    region_name: r
"""
    )


def nova_conf(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "nova.conf"
    file.write_text(text)
    return file


def credentials(auth_url: str, password: str) -> str:
    return f"""
[placement]
auth_type = password
auth_url = {auth_url}
username = nova
password = {password}
project_name = service
user_domain_name = Default
project_domain_name = Default
region_name = r
valid_interfaces = public
"""


def test_clouds_yaml_leads_to_placement_through_keystones_catalog(
    placement: PlacementClient, auth_url: str, tmp_path: Path
) -> None:
    placement.create_provider("n1")
    clouds(tmp_path, auth_url, PASSWORD)
    assert [each.name for each in cloud_client("here").providers()] == ["n1"]


@pytest.mark.parametrize("cloud", [None, "envvars"])
def test_the_variables_lead_there_too(
    placement: PlacementClient, auth_url: str, monkeypatch: pytest.MonkeyPatch, cloud: str | None
) -> None:
    placement.create_provider("n1")
    variables = {
        "AUTH_URL": auth_url,
        "USERNAME": "nova",
        "PASSWORD": PASSWORD,
        "PROJECT_NAME": "service",
        "USER_DOMAIN_NAME": "Default",
        "PROJECT_DOMAIN_NAME": "Default",
        "REGION_NAME": "r",
    }
    for name, value in variables.items():
        monkeypatch.setenv(f"OS_{name}", value)
    assert [each.name for each in cloud_client(cloud).providers()] == ["n1"]


def test_nova_conf_leads_there_too(placement: PlacementClient, auth_url: str, tmp_path: Path) -> None:
    placement.create_provider("n1")
    conf = read_nova_conf([nova_conf(tmp_path, credentials(auth_url, PASSWORD))])
    assert [each.name for each in nova_conf_client(conf).providers()] == ["n1"]


def test_a_wrong_password_is_unauthorized_and_names_keystone(auth_url: str, tmp_path: Path) -> None:
    conf = read_nova_conf([nova_conf(tmp_path, credentials(auth_url, "wrong"))])
    with pytest.raises(PlacementUnauthorized, match="Keystone"):
        nova_conf_client(conf).providers()


def test_a_keystone_that_does_not_answer_is_down(tmp_path: Path) -> None:
    conf = read_nova_conf([nova_conf(tmp_path, credentials("http://127.0.0.1:9/v3", PASSWORD))])
    with pytest.raises(PlacementDown):
        nova_conf_client(conf).providers()


def test_an_unknown_cloud_is_named(tmp_path: Path, auth_url: str) -> None:
    clouds(tmp_path, auth_url, PASSWORD)
    with pytest.raises(CredentialsError, match="elsewhere"):
        cloud_client("elsewhere")


def test_missing_variables_and_cloud_say_what_to_set() -> None:
    with pytest.raises(CredentialsError) as caught:
        cloud_client()
    assert "clouds.yaml" in caught.value.hint


def test_nova_conf_without_credentials_names_file_and_section(tmp_path: Path) -> None:
    conf = read_nova_conf([nova_conf(tmp_path, "[compute]\ncpu_dedicated_set = 2-17\n")])
    with pytest.raises(CredentialsError, match=r"nova\.conf: \[placement\]"):
        nova_conf_client(conf)


def test_nova_conf_with_half_credentials_names_the_rest(tmp_path: Path) -> None:
    conf = read_nova_conf([nova_conf(tmp_path, "[placement]\nauth_type = password\n")])
    with pytest.raises(CredentialsError, match="auth_url"):
        nova_conf_client(conf)


def test_endpoint_on_this_machine_needs_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with served(start()) as url:
        endpoint_client(url).providers()


def test_percent_sign_in_an_endpoint_is_sent() -> None:
    with served(start()) as url, pytest.raises(PlacementNotFound):
        endpoint_client(f"{url}/50%").providers()
