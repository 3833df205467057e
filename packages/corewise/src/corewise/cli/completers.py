"""The values that a shell completes: of nodes and pods, and contexts.

Node and pod names come from the cluster or the dump that the command line names. A user waits at a prompt, so
a cluster has two seconds to answer; an error completes nothing and prints nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

PATIENCE_SECONDS = 2.0


def of_names(names: Iterable[str], incomplete: str) -> list[CompletionItem[str]]:
    """Return the completions that a shell offers for these names."""
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def file_names(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Have the shell complete files: of an option of several, which click would complete with nothing."""
    return [CompletionItem(incomplete, type="file")]


def node_names(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Complete the name of a node of the cluster that the command line names."""
    return of_names((name for _, name in _objects(context, "nodes")), incomplete)


def pod_names(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Complete NAMESPACE/NAME of a pod; one of the namespace default may be named without it."""
    found = _objects(context, "pods")
    names = [f"{namespace}/{name}" for namespace, name in found]
    return of_names([*names, *(name for namespace, name in found if namespace == "default")], incomplete)


def context_names(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Complete the name of a context of the kubeconfig that the command line names."""
    from corewise.kube import config  # noqa: PLC0415 - slow, and --help needs none
    from corewise.kube.errors import ConfigError  # noqa: PLC0415

    try:
        return of_names(config.context_names(context.params.get("kubeconfig")), incomplete)
    except ConfigError:
        return []


def _objects(context: click.Context, plural: str) -> list[tuple[str, str]]:
    """Return namespace and name of all nodes or pods, in order; none if they cannot be had soon."""
    from corewise.cli.dump_client import client_of  # noqa: PLC0415 - slow, and --help needs none
    from corewise.cli.errors import Failure  # noqa: PLC0415
    from corewise.kube.objects import PartialObject  # noqa: PLC0415
    from corewise.kube.resources import NODES, PODS  # noqa: PLC0415
    from corewise.vocabulary.errors import OperationalError  # noqa: PLC0415

    given = context.params
    resource = (NODES if plural == "nodes" else PODS).typed(PartialObject)

    async def listed() -> list[tuple[str, str]]:
        client = client_of(given.get("dump"), given.get("kubeconfig"), given.get("context"))
        async with asyncio.timeout(PATIENCE_SECONDS), client:
            items = await client.list(resource)
            return sorted((item.metadata.namespace, item.metadata.name) for item in items)

    logging.getLogger("corewise").addHandler(logging.NullHandler())
    try:
        return asyncio.run(listed())
    except (Failure, OperationalError, OSError):  # TimeoutError is an OSError
        return []
