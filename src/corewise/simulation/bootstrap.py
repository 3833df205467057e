"""What is installed in the local cluster before anything runs: the shipped manifests.

RBAC is enforced, and manager and agents run as the ServiceAccounts of ``deploy/``, so that a permission
missing there shows here. Only what has no program behind it is applied: no Deployments and DaemonSets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

import corewise
from corewise.config.yaml_text import load_documents
from corewise.kube.client import Client, PatchType
from corewise.kube.errors import AlreadyExists
from corewise.kube.resources import NAMESPACES, NODE_RESOURCE_TOPOLOGIES
from corewise.simulation.processes import ClusterError

FIELD_MANAGER = "corewise-local"
AGENT_NAMESPACE, AGENT_NAME = "corewise-system", "corewise-agent"
_PLURALS: Mapping[str, tuple[str, bool]] = {
    "Namespace": ("namespaces", False),
    "CustomResourceDefinition": ("customresourcedefinitions", False),
    "ServiceAccount": ("serviceaccounts", True),
    "ClusterRole": ("clusterroles", False),
    "ClusterRoleBinding": ("clusterrolebindings", False),
    "Role": ("roles", True),
    "RoleBinding": ("rolebindings", True),
}
Manifest = dict[str, Any]


def shipped_manifests() -> list[Manifest]:
    """Return the manifests of ``deploy/`` that the local cluster applies, namespaces and CRDs first.

    Raises:
        ClusterError: if this installation of corewise has none.
    """
    found = [document for path in sorted(_folder().rglob("*.yaml")) for document in _documents(path)]
    kinds = list(_PLURALS)
    known = [document for document in found if document.get("kind") in _PLURALS]
    return sorted(known, key=lambda document: kinds.index(document["kind"]))


def _folder() -> Path:
    """Return where the manifests are: in the package once installed, beside it in a source tree."""
    package = Path(str(files("corewise")))
    for folder in (package / "deploy", package.parents[1] / "deploy"):
        if folder.is_dir():
            return folder
    raise ClusterError(f"corewise {corewise.__version__} has no manifests (deploy/): install it again")


def _documents(path: Path) -> list[Manifest]:
    documents = load_documents(path.read_text(encoding="utf-8"))
    return [document for document in documents if isinstance(document, dict)]


def manager_account(manifests: list[Manifest]) -> tuple[str, str]:
    """Return namespace and name of the manager's ServiceAccount.

    Raises:
        ClusterError: if the manifests have none.
    """
    for manifest in manifests:
        name = manifest["metadata"]["name"]
        if manifest["kind"] == "ServiceAccount" and name.endswith("manager"):
            return manifest["metadata"].get("namespace", "default"), name
    raise ClusterError("deploy/ has no ServiceAccount for the manager")


def account_identity(namespace: str, name: str) -> tuple[str, list[str]]:
    """Return the user name and groups of a ServiceAccount, as its token would have them."""
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    return f"system:serviceaccount:{namespace}:{name}", groups


async def install(client: Client, manifests: list[Manifest]) -> None:
    """Apply the manifests.

    Raises:
        KubeError: if the API server refuses one.
    """
    for manifest in manifests:
        await apply(client, manifest)
    await client.list(NODE_RESOURCE_TOPOLOGIES)


async def apply(client: Client, manifest: Manifest) -> None:
    """Apply one manifest by server-side apply."""
    plural, namespaced = _PLURALS[manifest["kind"]]
    version, metadata = manifest["apiVersion"], manifest["metadata"]
    prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
    place = f"/namespaces/{quote(metadata.get('namespace', 'default'))}" if namespaced else ""
    await client.request(
        "PATCH",
        f"{prefix}{place}/{plural}/{quote(metadata['name'], safe=':')}",
        params={"fieldManager": FIELD_MANAGER, "force": "true"},
        body=manifest,
        content_type=PatchType.APPLY.value,
    )


async def ensure_namespace(client: Client, name: str) -> None:
    """Create a namespace unless it is there."""
    try:
        await client.create(NAMESPACES, {"metadata": {"name": name}})
    except AlreadyExists:
        return


def acting_as(kubeconfig: Path, user: str, groups: list[str], target: Path) -> None:
    """Write a kubeconfig that is another one, acting as somebody else (``kubectl --as``)."""
    document = msgspec.json.decode(kubeconfig.read_bytes())
    for entry in document["users"]:
        entry["user"] |= {"as": user, "as-groups": groups}
    target.touch(mode=0o600)
    target.write_text(json.dumps(document, indent=2), encoding="utf-8")
