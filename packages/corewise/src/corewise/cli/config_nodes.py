"""The options of ``corewise config`` that name nodes to compare a configuration with."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import click

from corewise.cli.files import TEXT_FILE, decoded
from corewise.cli.options import connection_options, together
from corewise.views.compared_nodes import ComparedNodes, nodes_of_cluster, nodes_of_dump
from corewise.vocabulary.names import CONFIG_NAMESPACE

HOW_TO = "kubectl get nodes,noderesourcetopologies -o json"
HOW_TO_WITH_PODS = "kubectl get nodes,pods,noderesourcetopologies,configmaps -A -o json"


def node_options(
    *, names: bool = False, pods: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options that name nodes; the command gets them as ``nodes``, None if no option is given.

    ``names``: with a cluster, the names of other projects on its objects are looked for too. ``pods``: the
    pods that run on the nodes are read, too. A command that has CONFIG_NAMESPACE_OPTION says where the
    cluster's ConfigMap is.
    """
    return partial(_with_nodes, names=names, pods=pods)


def _with_nodes(command: Callable[..., None], *, names: bool, pods: bool) -> Callable[..., None]:
    @together(
        click.option(
            "--nodes",
            "dump",
            type=TEXT_FILE,
            metavar="DUMP",
            help=f"Compare with these nodes: {HOW_TO_WITH_PODS if pods else HOW_TO}; - is stdin.",
        ),
        click.option("--cluster", is_flag=True, help="Compare with the nodes of the cluster, read now."),
        connection_options,
    )
    @wraps(command)
    def with_nodes(
        *,
        dump: str | None,
        cluster: bool,
        kubeconfig: str | None,
        context: str | None,
        config_namespace: str = CONFIG_NAMESPACE,
        **others: Any,
    ) -> None:
        if dump is not None and cluster:
            raise click.UsageError("--nodes and --cluster: name one of them")
        if not cluster and (kubeconfig is not None or context is not None):
            raise click.UsageError("--kubeconfig and --context say which cluster: add --cluster")
        if dump == "-" and others.get("file") == "-":
            raise click.UsageError("only one of FILE and --nodes can be stdin")
        with _uncollected():
            nodes = None if dump is None else _of_dump(dump, config_namespace, pods=pods)
            if cluster:
                nodes = _of_cluster(kubeconfig, context, config_namespace, names=names, pods=pods)
            command(nodes=nodes, **others)

    return with_nodes


@contextmanager
def _uncollected() -> Iterator[None]:
    """Collect no garbage meanwhile: walking 100,000 pods again and again finds none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _of_dump(file: str, config_namespace: str, *, pods: bool) -> ComparedNodes:
    how_to = HOW_TO_WITH_PODS if pods else HOW_TO
    read = partial(nodes_of_dump, config_namespace=config_namespace, pods=pods)
    return decoded(file, read, "a list of nodes", f"make it with: {how_to}")


def _of_cluster(
    kubeconfig: str | None, context: str | None, config_namespace: str, *, names: bool, pods: bool
) -> ComparedNodes:
    # The HTTP client is slow to import, and a file needs none.
    from corewise.kube.client import Client  # noqa: PLC0415
    from corewise.kube.config import load_config  # noqa: PLC0415

    async def read() -> ComparedNodes:
        async with Client(load_config(kubeconfig, context)) as client:
            return await nodes_of_cluster(client, config_namespace, names=names, pods=pods)

    return asyncio.run(read())
