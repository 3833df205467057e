"""How a test starts the web page: as its ServiceAccount, with Roles that only the chart ships."""

from __future__ import annotations

from pathlib import Path

import yaml

from identities import command_of, kubeconfig_of
from tools import chart

_AUTH_DELEGATOR = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "system:auth-delegator"},
    "rules": [
        {"apiGroups": [group], "resources": [resource], "verbs": ["create"]}
        for group, resource in (
            ("authentication.k8s.io", "tokenreviews"),
            ("authorization.k8s.io", "subjectaccessreviews"),
        )
    ],
}
"""A role that every real cluster has; the page is bound to it."""


async def page_kubeconfig(administrator: Path) -> Path:
    """Return the page's kubeconfig beside an administrator's; the first call installs its Roles."""
    rendered = chart.render({"web": {"enabled": True, "tlsSecret": "tls"}})["web/rbac.yaml"]
    return await kubeconfig_of("web", administrator, (_AUTH_DELEGATOR, *yaml.safe_load_all(rendered)))


async def page_command(administrator: Path, *options: str) -> list[str]:
    """Return the command line that starts the page with its identity."""
    await page_kubeconfig(administrator)
    return await command_of("web", administrator, *options)
