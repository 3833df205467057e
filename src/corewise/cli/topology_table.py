"""A machine as a table: a line for each last-level cache, or for each core.

What belongs to a NUMA node (memory, offline CPUs) stands in the node's first line only, so that a column adds
up. NUMA nodes without an online CPU, and offline CPUs of no known node, have lines of their own at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from corewise.cli import output
from corewise.cli.machine_tree import CachePart, nodes_elsewhere, sockets_of
from corewise.cli.output import Column, Form, Listing, gibibytes
from corewise.cli.topology_drawing import cache_size
from corewise.topology import CPUSet, Host, NumaMemory

_NO_CPUS = CPUSet()


@dataclass(frozen=True, slots=True)
class Row:
    """One line. None is what is unknown or does not apply; ``memory`` is set in a node's first line."""

    socket: int | None
    node: int | None
    cache: int | None = None
    size: int | None = None
    core: int | None = None
    cores: int | None = None
    kind: str = ""
    cpus: CPUSet = _NO_CPUS
    offline: CPUSet = _NO_CPUS
    memory: NumaMemory | None = None


def table(host: Host, form: Form) -> str:
    """Return the table; the wide one has a line for each core."""
    columns = [each for each in _columns(per_core=form is Form.WIDE) if each.title not in _idle(host)]
    rows = list(_core_rows(host) if form is Form.WIDE else _cache_rows(host))
    return output.render(Listing(columns, rows, (), lambda row: str(row.core)), form)


def _columns(*, per_core: bool) -> list[Column[Row]]:
    place: list[Column[Row]] = [
        Column("SOCKET", lambda row: _number(row.socket), right=True),
        Column("NUMA", lambda row: _number(row.node), right=True),
        Column("LLC", lambda row: _number(row.cache), right=True),
        Column("SIZE", lambda row: cache_size(row.size) if row.size else "-", right=True),
    ]
    cpus: list[Column[Row]] = [
        Column("CPUS", lambda row: str(row.cpus) or "-"),
        Column("KIND", lambda row: row.kind or "-"),
        Column("OFFLINE", lambda row: str(row.offline) or "-"),
    ]
    if per_core:
        return [*place, Column("CORE", lambda row: _number(row.core), right=True), *cpus]
    return [
        *place,
        Column("CORES", lambda row: _number(row.cores), right=True),
        Column("ONLINE", lambda row: str(len(row.cpus)), right=True),
        *cpus,
        Column("MEMORY", lambda row: _gibibytes(row.memory.total if row.memory else None), right=True),
        Column("HUGEPAGES", lambda row: _gibibytes(row.memory.hugepages if row.memory else None), right=True),
    ]


def _idle(host: Host) -> set[str]:
    """Return the columns that would have nothing to say about this machine."""
    return ({"OFFLINE"} if not host.offline else set()) | ({"KIND"} if not host.kinds else set())


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _gibibytes(amount: int | None) -> str:
    return "-" if amount is None else f"{gibibytes(amount)} GiB"


def _cache_rows(host: Host) -> Iterator[Row]:
    for socket in sockets_of(host):
        for node in socket.nodes:
            for index, cache in enumerate(node.caches):
                first = node.first and index == 0
                yield Row(
                    socket.number,
                    node.number,
                    *_known(host, cache),
                    cores=len(cache.cores),
                    kind=", ".join(dict.fromkeys(core.kind for core in cache.cores)),
                    cpus=cache.cpus,
                    offline=host.offline_of(node.number) if first else _NO_CPUS,
                    memory=host.memory.get(node.number) if first else None,
                )
    yield from _without_cpus(host)


def _core_rows(host: Host) -> Iterator[Row]:
    for socket in sockets_of(host):
        for node in socket.nodes:
            offline = host.offline_of(node.number) if node.first else _NO_CPUS
            for cache in node.caches:
                place = (socket.number, node.number, *_known(host, cache))
                for core in cache.cores:
                    yield Row(*place, core=core.number, kind=core.kind, cpus=core.cpus, offline=offline)
                    offline = _NO_CPUS
    yield from _without_cpus(host)


def _known(host: Host, cache: CachePart) -> tuple[int | None, int | None]:
    """Return number and size of a cache that the kernel tells about."""
    known = host.caches.get(cache.number)
    return (cache.number, known.size) if known else (None, None)


def _without_cpus(host: Host) -> Iterator[Row]:
    for node in nodes_elsewhere(host):
        yield Row(None, node, cores=0, offline=host.offline_of(node), memory=host.memory.get(node))
    if nowhere := host.offline_of(None):
        yield Row(None, None, offline=nowhere)
