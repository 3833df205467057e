"""Options by which commands find a cluster, and how its errors end a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from corewise.kube.config import ClusterConfig, load_config
from corewise.vocabulary.names import CONFIG_NAMESPACE
from corewise.vocabulary.qos import DEFAULT_NAMESPACES

T = TypeVar("T")
Decorated = Callable[..., Any]

QOS_NAMESPACES = click.option(
    "--restricted-qos-namespace",
    multiple=True,
    metavar="NAMESPACE",
    default=DEFAULT_NAMESPACES,
    show_default=True,
    help="A namespace whose pods may be LSE or SYSTEM; may be repeated. The same for agents and scheduler.",
)


def cluster_options(command: Decorated) -> Decorated:
    """Add ``--kubeconfig``, ``--context`` and ``--config-namespace``."""
    namespace = click.option(
        "--config-namespace",
        default=CONFIG_NAMESPACE,
        show_default=True,
        help="Namespace of the ConfigMap slo-controller-config.",
    )
    return connection_options(namespace(command))


def connection_options(command: Decorated) -> Decorated:
    """Add ``--kubeconfig`` and ``--context``."""
    for option in (
        click.option("--context", default=None, help="Context of the kubeconfig to use."),
        click.option(
            "--kubeconfig",
            default=None,
            help="Kubeconfig file; else KUBECONFIG, ~/.kube/config, or the Pod's own account.",
        ),
    ):
        command = option(command)
    return command


def find_cluster(kubeconfig: str | None, context: str | None) -> ClusterConfig:
    """Return how to reach the cluster.

    Raises:
        ConfigError: if the kubeconfig cannot be used.
    """
    return load_config(kubeconfig, context)
