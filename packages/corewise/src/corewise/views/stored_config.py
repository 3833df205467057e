"""What commands say about the ConfigMap that the cluster has, and the commands that read it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from corewise.ratios.cluster import ConfigurationReading
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    CONFIG_NAME,
    CONFIG_NAMESPACE,
    NORMALIZATION_KEY,
)
from corewise.vocabulary.reasons import Reason


def check_command(config_namespace: str) -> str:
    """Return the command that checks the ConfigMap as the cluster has it."""
    return f"{_get(config_namespace)} | corewise config check -"


def keys_with_errors(reading: ConfigurationReading, config_namespace: str) -> Iterator[str]:
    """Say of each key with errors what applies instead, and how to see them."""
    for key in reading.bad_keys:
        instead = reading.applied_instead(key)
        yield f"{key} has errors: {instead}. To see them: {check_command(config_namespace)}"


def errors_for_agents(reading: ConfigurationReading) -> Iterator[Finding]:
    """Yield the keys with errors that agents follow; what the others mean to a node, its assessment says."""
    for key in reading.bad_keys:
        if key not in {NORMALIZATION_KEY, AMPLIFICATION_KEY}:
            message = f"{key} has errors: {reading.applied_instead(key)}"
            yield Finding(Reason.CONFIG_INVALID, message)


def fix_of(reason: Reason, config_namespace: str) -> str:
    """Return the remedy of a reason, where the ConfigMap is in this namespace."""
    return reason.fix.replace(check_command(CONFIG_NAMESPACE), check_command(config_namespace))


def save_command(config_namespace: str) -> str:
    """Return the command that prints the ConfigMap in a form that kubectl can apply again later."""
    return f"{_get(config_namespace)} | grep -v ' uid:\\| resourceVersion:'"


def _get(config_namespace: str) -> str:
    return f"kubectl -n {shlex.quote(config_namespace)} get configmap {CONFIG_NAME} -o yaml"
