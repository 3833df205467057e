"""What commands say about the ConfigMap that the cluster has, and the commands that read it."""

from __future__ import annotations

from corewise.vocabulary.names import CONFIG_NAME


def check_command(config_namespace: str) -> str:
    """Return the command that checks the ConfigMap as the cluster has it."""
    return f"kubectl -n {config_namespace} get configmap {CONFIG_NAME} -o yaml | corewise config check -"


def key_has_errors(key: str, config_namespace: str) -> str:
    """Say that a key has errors, what follows, and how to see them."""
    return (
        f"{key} has errors, and what they concern is not applied. To see them: "
        f"{check_command(config_namespace)}"
    )


def save_command(config_namespace: str) -> str:
    """Return the command that prints the ConfigMap in a form that kubectl can apply again later."""
    return (
        f"kubectl -n {config_namespace} get configmap {CONFIG_NAME} -o yaml "
        "| grep -v ' uid:\\| resourceVersion:'"
    )
