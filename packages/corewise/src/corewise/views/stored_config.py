"""What commands say about the ConfigMap that the cluster has, and the commands that read it."""

from __future__ import annotations

from collections.abc import Iterator

from corewise.ratios.cluster import ConfigurationReading
from corewise.vocabulary.names import CONFIG_NAME


def check_command(config_namespace: str) -> str:
    """Return the command that checks the ConfigMap as the cluster has it."""
    return f"kubectl -n {config_namespace} get configmap {CONFIG_NAME} -o yaml | corewise config check -"


def keys_with_errors(reading: ConfigurationReading, config_namespace: str) -> Iterator[str]:
    """Say of each key with errors what applies instead, and how to see them."""
    for key in reading.bad_keys:
        instead = reading.applied_instead(key)
        yield f"{key} has errors: {instead}. To see them: {check_command(config_namespace)}"


def save_command(config_namespace: str) -> str:
    """Return the command that prints the ConfigMap in a form that kubectl can apply again later."""
    return (
        f"kubectl -n {config_namespace} get configmap {CONFIG_NAME} -o yaml "
        "| grep -v ' uid:\\| resourceVersion:'"
    )
