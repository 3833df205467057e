"""The manifests of ``deploy/``, which corewise-lab carries in its wheel."""

from __future__ import annotations

from typing import Any

from corewise_lab.control_plane import shipped_manifests

_OF_AN_ACCOUNT = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}


def roles(program: str) -> list[dict[str, Any]]:
    """Return a program's ServiceAccount, its Roles and their bindings."""
    return [
        each
        for each in shipped_manifests()
        if each["kind"] in _OF_AN_ACCOUNT and each["metadata"]["name"].startswith(f"corewise-{program}")
    ]


def definition(name: str) -> dict[str, Any]:
    """Return a CustomResourceDefinition by its name."""
    (found,) = (each for each in shipped_manifests() if each["metadata"]["name"] == name)
    return found
