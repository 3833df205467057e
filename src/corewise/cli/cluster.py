"""Options by which commands find a cluster, and how its errors end a command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import click

from corewise.cli.errors import ExitCode, Failure
from corewise.kube.config import ClusterConfig, load_config
from corewise.kube.errors import ConfigError, Forbidden, KubeError, NotFound, Unauthorized
from corewise.service.options import OptionsError
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
        Failure: if the kubeconfig cannot be used.
    """
    try:
        return load_config(kubeconfig, context)
    except ConfigError as error:
        raise Failure(error.message, hint=error.hint, exit_code=ExitCode.BAD_INPUT) from error


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine.

    Raises:
        Failure: if an option is wrong, or the API server refuses or does not answer.
    """
    try:
        return asyncio.run(work)
    except KubeError as error:
        raise Failure(error.message, hint=error.hint, exit_code=_exit_code(error)) from error
    except OptionsError as error:
        raise Failure(str(error), exit_code=ExitCode.USAGE) from error


def _exit_code(error: KubeError) -> ExitCode:
    match error:
        case NotFound():
            return ExitCode.NOT_FOUND
        case Forbidden() | Unauthorized():
            return ExitCode.REFUSED
        case ConfigError():
            return ExitCode.BAD_INPUT
        case _:
            return ExitCode.CONNECTION
