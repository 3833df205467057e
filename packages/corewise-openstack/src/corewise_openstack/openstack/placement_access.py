"""Where Placement is, and which credentials to use: an endpoint, a cloud, or [placement] of nova.conf.

| source | endpoint | identity |
|---|---|---|
| ``endpoint_client`` | as given | none: a Placement that runs with noauth2, as the embedded one does |
| ``cloud_client`` | Keystone's catalog | a cloud of clouds.yaml, or OS_* variables, as openstacksdk does |
| ``nova_conf_client`` | Keystone's catalog | [placement] of nova.conf, as keystoneauth and Nova have it |

Nothing is sent before the first request.

OpenStack's libraries warn of each other's deprecations, which cannot be fixed here, and where a program has
set up no logging, what they log goes to stderr: a command's error would appear there twice. So imports run
within :func:`quietly`, and :func:`silent_without_logging` mutes their loggers until a program configures
logging.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from keystoneauth1 import adapter, loading, plugin, session
from keystoneauth1 import exceptions as refusals

from corewise_openstack.openstack.errors import CredentialsError
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.openstack.placement_http import SERVICE_TYPE, PlacementTransport

if TYPE_CHECKING:
    from corewise_openstack.openstack.nova_conf import NovaConf

TIMEOUT = 60.0
"""Seconds until a request without an answer is given up; a query of 5,000 hosts takes less than one."""

_AUTHORITIES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""The variables by which requests finds the authorities to trust."""
_ADMIN_HEADERS = {"X-Auth-Token": "admin", "X-Roles": "admin,service"}
"""The identity stated where none is checked; the reshaper needs the role service."""

_GROUP = "placement"


def quietly() -> warnings.catch_warnings[None]:
    """Return a block within which no warning is shown; for one thread at a time, as Python has it."""
    return warnings.catch_warnings(action="ignore")


@contextmanager
def logging_as_it_was() -> Iterator[None]:
    """A block that leaves the root logger's handlers as they were: oslo.log adds one, to stderr."""
    root = logging.getLogger()
    before = list(root.handlers)
    try:
        yield
    finally:
        for added in [handler for handler in root.handlers if handler not in before]:
            root.removeHandler(added)


def silent_without_logging(loggers: Iterable[str]) -> None:
    """Have these loggers say nothing, unless a program has set up logging; then they are part of it."""
    for name in loggers:
        logging.getLogger(name).addHandler(logging.NullHandler())


silent_without_logging(("keystoneauth", "openstack"))


class UncheckedAdmin(plugin.BaseAuthPlugin):
    """An administrator by headers alone, which a Placement with ``noauth2`` believes."""

    def get_headers(self, session: session.Session, **kwargs: Any) -> dict[str, str]:
        return dict(_ADMIN_HEADERS)


def endpoint_client(endpoint: str) -> PlacementClient:
    """Return a client of a Placement without Keystone (``auth_strategy = noauth2``).

    Keystoneauth fills in ``%(name)s`` in an endpoint. No proxy leads to a Placement on this machine.
    """
    over = session.Session(auth=UncheckedAdmin(), timeout=TIMEOUT)
    if _is_loopback(endpoint):
        over.session.trust_env = False  # neither proxies nor, which is restored, authorities
        over.verify = next(filter(None, map(os.environ.get, _AUTHORITIES)), True)
    return adapter_client(over, endpoint.replace("%", "%%"))


def _is_loopback(endpoint: str) -> bool:
    try:
        host = urlsplit(endpoint).hostname
        return host == "localhost" or (host is not None and ip_address(host).is_loopback)
    except ValueError:
        return False


def adapter_client(over: session.Session, endpoint: str | None, **chosen: Any) -> PlacementClient:
    """Return a client over a session; without an endpoint, Keystone's catalog has it."""
    found = adapter.Adapter(over, service_type=SERVICE_TYPE, endpoint_override=endpoint, **chosen)
    return PlacementClient(PlacementTransport(found))


def cloud_client(cloud: str | None = None) -> PlacementClient:
    """Return a client for a cloud of clouds.yaml, or, without a name, for what OS_* or OS_CLOUD says.

    Raises:
        CredentialsError: if there is no such cloud, or something is missing in it.
    """
    with quietly():
        from openstack import config  # noqa: PLC0415 - it takes long to import, and few need it
        from openstack import exceptions as broken  # noqa: PLC0415
    try:
        with quietly():
            region = config.OpenStackConfig().get_one(cloud=cloud)
        over = region.get_session()
        over.timeout = over.timeout or TIMEOUT
        return adapter_client(
            over,
            region.get_endpoint(SERVICE_TYPE),
            interface=region.get_interface(SERVICE_TYPE),
            region_name=region.get_region_name(SERVICE_TYPE),
        )
    except (broken.ConfigException, refusals.ClientException) as error:
        named = f"cloud {cloud}" if cloud else "the OS_* variables"
        raise CredentialsError(f"{named}: {error}") from error


def nova_conf_client(conf: NovaConf) -> PlacementClient:
    """Return a client with the credentials that the compute service of Nova uses.

    Raises:
        CredentialsError: if [placement] is missing or incomplete.
    """
    options = conf.configuration
    loading.register_auth_conf_options(options, _GROUP)
    loading.register_session_conf_options(options, _GROUP)
    loading.register_adapter_conf_options(options, _GROUP)
    where = ", ".join(map(str, conf.files))
    try:
        auth = loading.load_auth_from_conf_options(options, _GROUP)
        if auth is None:
            raise CredentialsError(f"{where}: [{_GROUP}] has no auth_type")
        over = loading.load_session_from_conf_options(options, _GROUP, auth=auth, timeout=TIMEOUT)
        found = loading.load_adapter_from_conf_options(
            options, _GROUP, session=over, service_type=SERVICE_TYPE
        )
    except (refusals.ClientException, ValueError) as error:
        raise CredentialsError(f"{where}: [{_GROUP}]: {error}") from error
    return PlacementClient(PlacementTransport(found))
