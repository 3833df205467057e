"""The error of a view whose object does not exist."""

from __future__ import annotations

from corewise.kube.client import Client
from corewise.kube.errors import NotFound
from corewise.kube.objects import PartialObject
from corewise.kube.resources import NODES, PODS
from corewise.views.text import some
from corewise.vocabulary.errors import OperationalError
from corewise.vocabulary.exit_codes import ExitCode


class ObjectNotFoundError(OperationalError):
    """There is no such object in the cluster, or in the dump of one."""

    exit_code = ExitCode.NOT_FOUND

    @classmethod
    def node(cls, name: str, hint: str = "list the nodes with: corewise nodes") -> ObjectNotFoundError:
        """Return the error about a node that does not exist."""
        return cls(f"there is no node {name}", hint=hint)


async def no_node(client: Client, name: str) -> ObjectNotFoundError:
    """Return the error about a node that does not exist; a dump names the nodes that it has."""
    if client.config.server:
        return ObjectNotFoundError.node(name)
    nodes = await client.list(NODES.typed(PartialObject))
    names = some([each.metadata.name for each in nodes])
    return ObjectNotFoundError.node(name, f"there are: {names or 'none'}")


async def no_pod(client: Client, namespace: str, name: str) -> ObjectNotFoundError:
    """Return the error about a pod that does not exist; a dump names the pods that its namespace has."""
    hint = "list the pods with: kubectl get pods -A"
    if not client.config.server:
        try:
            pods = await client.list(PODS, namespace)
        except NotFound:
            hint = "the file has no pods"
        else:
            names = some([each.metadata.name for each in pods])
            hint = f"there are: {names}" if names else f"namespace {namespace} has none"
    return ObjectNotFoundError(f"there is no pod {namespace}/{name}", hint=hint)
