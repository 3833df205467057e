"""The error of a view whose object does not exist."""

from __future__ import annotations

from corewise.kube.client import Client
from corewise.kube.objects import PartialObject
from corewise.kube.resources import NODES
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
