"""How a test starts a program: as its ServiceAccount, with the Roles that corewise ships.

The test itself is an administrator. Only the worlds and this module give a program its kubeconfig
(``test_identities.py``), so that a permission that is missing fails the suite in which it is needed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.vocabulary.names import CONFIG_NAMESPACE
from corewise_lab.control_plane import account_identity, acting_as, apply, ensure_namespace
from kubedouble import LocalAPIServer
from kubedouble.authentication import User, service_account
from kubedouble.errors import StatusError
from kubedouble.rbac import Access
from shipped import roles

Manifests: TypeAlias = Sequence[dict[str, Any]]
PROGRAMS = ("agent", "manager", "scheduler", "web")


def account(program: str) -> User:
    """Return a program's user for the API server."""
    return service_account(CONFIG_NAMESPACE, f"corewise-{program}")


async def kubeconfig_of(program: str, administrator: Path, manifests: Manifests = ()) -> Path:
    """Return the kubeconfig of a program beside an administrator's; the first call installs its Roles.

    ``manifests`` has the Roles of a program that ``deploy/`` does not have.
    """
    target = administrator.with_name(f"{program}.kubeconfig")
    if not target.exists():
        async with Client(load_config(str(administrator))) as client:
            await ensure_namespace(client, CONFIG_NAMESPACE)
            for manifest in manifests or roles(program):
                await apply(client, manifest)
        acting_as(administrator, *account_identity(CONFIG_NAMESPACE, f"corewise-{program}"), target)
    return target


async def command_of(program: str, administrator: Path, *options: str) -> list[str]:
    """Return the command line that starts a program with its identity."""
    kubeconfig = await kubeconfig_of(program, administrator)
    return [sys.executable, "-m", "corewise", program, "--kubeconfig", str(kubeconfig), *options]


@contextmanager
def nothing_refused(server: LocalAPIServer) -> Iterator[list[str]]:
    """Fail at the end of the block if a program wanted what its Roles do not grant.

    Yields what was refused, for a test that expects it to clear.
    """
    programs = {account(program).name for program in PROGRAMS}
    refused: list[str] = []
    require = server.cluster.authorizer.require

    def recorded(user: User, access: Access) -> None:
        try:
            require(user, access)
        except StatusError as refusal:
            if user.name in programs:
                refused.append(refusal.message)
            raise

    server.cluster.authorizer.require = recorded  # type: ignore[method-assign]
    yield refused
    assert refused == [], "the Roles in deploy/ do not grant what a program does"
