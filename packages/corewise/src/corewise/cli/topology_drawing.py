"""A machine as a tree and as a drawing: sockets hold NUMA nodes, then last-level caches, cores and CPUs.

Nesting is a view. A NUMA node that spans sockets appears in each of them, a cache that spans NUMA nodes
(Intel sub-NUMA clustering) in each of those, with the part of its CPUs that is there.

In the drawing, offline CPUs are hatched, in their NUMA node: the kernel does not say which core they belong
to. Each kind of CPU has a color, whether kinds differ by how they are built or by who holds them. A tooltip
names everything a CPU belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from corewise.cli import svg
from corewise.cli.svg import Box
from corewise.topology import CPUSet, Host, Topology
from corewise.views.text import count, gibibytes


@dataclass(frozen=True, slots=True)
class Core:
    """A core with its CPUs (threads) online."""

    number: int
    cpus: CPUSet
    kind: str


@dataclass(frozen=True, slots=True)
class CachePart:
    """The cores of a last-level cache that are in one NUMA node and socket."""

    number: int
    cores: tuple[Core, ...]

    @property
    def cpus(self) -> CPUSet:
        return CPUSet.of(cpu for core in self.cores for cpu in core.cpus)


@dataclass(frozen=True, slots=True)
class NumaPart:
    """The caches of a NUMA node that are in one socket. ``first`` marks its first appearance."""

    number: int
    first: bool
    caches: tuple[CachePart, ...]


@dataclass(frozen=True, slots=True)
class Socket:
    """A socket and the NUMA nodes that have CPUs in it."""

    number: int
    nodes: tuple[NumaPart, ...]

    @property
    def cores(self) -> int:
        return sum(len(cache.cores) for node in self.nodes for cache in node.caches)


def sockets_of(host: Host) -> tuple[Socket, ...]:
    """Return the machine's online CPUs as a tree."""
    seen: set[int] = set()
    sockets = []
    for number, cpus in host.topology.sockets.items():
        inside = host.topology.within(cpus)
        nodes = []
        for node, node_cpus in inside.numa_nodes.items():
            caches = _cache_parts(host, inside.within(node_cpus))
            nodes.append(NumaPart(node, node not in seen, tuple(caches)))
            seen.add(node)
        sockets.append(Socket(number, tuple(nodes)))
    return tuple(sockets)


def nodes_elsewhere(host: Host) -> CPUSet:
    """Return the NUMA nodes without an online CPU: memory only, or all CPUs offline."""
    linked = {node for node in host.offline.values() if node is not None}
    return CPUSet.of({*host.memory, *linked} - set(host.topology.numa_nodes))


def _cache_parts(host: Host, node: Topology) -> Iterator[CachePart]:
    for number, cpus in node.caches.items():
        cores = node.within(cpus).cores.items()
        yield CachePart(number, tuple(Core(core, own, host.kind(next(iter(own)))) for core, own in cores))


_THREAD_WIDTH = 30
_THREAD_HEIGHT = 20
_NUMBER_SIZE = 11
_HEADING_SIZE = 17
_MARGIN = 16
_WIDEST_ROW = 1500
_MEBI = 1024**2
_KIND_COLORS = (
    ("#bfe5c8", "#4f9b63"),
    ("#d3cdf2", "#7767bd"),
    ("#f6cdbb", "#bd6a42"),
    ("#e5e7eb", "#8a96a3"),
    ("#bfdff6", "#3f83b5"),
    ("#f8e3a1", "#b18a1d"),
    ("#f4c2d7", "#b34d7c"),
    ("#c5ebe6", "#3a928a"),
    ("#e0d2b8", "#8c7142"),
    ("#d7e8a8", "#7a9432"),
)
_KIND_STYLES = tuple(f"kind{index}" for index in range(len(_KIND_COLORS)))

_STYLES = (
    ".title{fill:#1f2933;font-weight:600}"
    ".heading{fill:#111827;font-weight:700}"
    ".line{fill:#4b5563}"
    ".number{fill:#102a1c;text-anchor:middle}"
    ".gone{fill:#6b7280;text-anchor:middle}"
    ".socket{fill:#eef1f4;stroke:#8a96a3;stroke-width:1.5}"
    ".numa{fill:#e3eefb;stroke:#6f9fd0}"
    ".cache{fill:#fff5df;stroke:#dcb05a}"
    ".core{fill:#ffffff;stroke:#7b8794}"
    ".offline{fill:url(#hatch);stroke:#9aa3ad;stroke-dasharray:3 2}"
)
_HATCH = (
    '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" fill="#f3f4f6"/><rect width="2" height="6" fill="#c3c9d1"/></pattern>'
)


def drawing(
    host: Host, heading: str, lines: Sequence[str], holders: Mapping[int, str] = MappingProxyType({})
) -> str:
    """Return the machine as an SVG file; ``heading`` and ``lines`` stand above it.

    The colors follow the order of the host's kinds; those without CPUs are not in the legend. ``holders``:
    who holds a CPU, for its tooltip.
    """
    sockets = [
        (f"Socket {each.number} · {count(each.cores, 'core')}", [_nodes(host, each, holders)])
        for each in sockets_of(host)
    ]
    frames = svg.frames(sockets, "socket")
    side_by_side = svg.row(frames, gap=12)
    fitting = side_by_side if side_by_side.width <= _WIDEST_ROW else svg.column(frames, gap=12)
    boxes = [_header(heading, lines), fitting]
    cpuless = [
        (f"{_node_title(host, node)} · no CPU online", _offline(host.offline_of(node), "offline"))
        for node in nodes_elsewhere(host)
    ]
    boxes += [svg.row(svg.frames(cpuless, "numa"))] if cpuless else []
    boxes += _offline(host.offline_of(None), "offline, NUMA node unknown")
    inside = svg.column([*boxes, _legend(host)], gap=12)
    page = Box(inside.width + 2 * _MARGIN, inside.height + 2 * _MARGIN, svg.at(_MARGIN, _MARGIN, inside))
    return svg.document(page, label=heading, styles=_STYLES + _kind_styles(host), definitions=_HATCH)


def _header(heading: str, lines: Sequence[str]) -> Box:
    words = [svg.text(0, 16, heading, size=_HEADING_SIZE, style="heading")]
    words += [svg.text(0, 36 + 17 * index, line, style="line") for index, line in enumerate(lines)]
    width = max(svg.text_width(heading, _HEADING_SIZE), *(svg.text_width(line) for line in lines), 0)
    return Box(width, 24 + 17 * len(lines), "".join(words))


def _nodes(host: Host, socket: Socket, holders: Mapping[int, str]) -> Box:
    nodes = []
    for node in socket.nodes:
        offline = _offline(host.offline_of(node.number), "offline") if node.first else []
        nodes.append((_node_title(host, node.number), [_caches(host, socket, node, holders), *offline]))
    return svg.grid(svg.frames(nodes, "numa"))


def _node_title(host: Host, node: int) -> str:
    memory = host.memory.get(node)
    if memory is None:
        return f"NUMA {node}"
    hugepages = f", {gibibytes(memory.hugepages)} in hugepages" if memory.hugepages else ""
    return f"NUMA {node} · {gibibytes(memory.total)} GiB{hugepages}"


def _caches(host: Host, socket: Socket, node: NumaPart, holders: Mapping[int, str]) -> Box:
    caches = []
    for cache in node.caches:
        place = f"LLC {cache.number}, NUMA {node.number}, socket {socket.number}"
        cores = svg.grid([_core(host, core, place, holders) for core in cache.cores], gap=4)
        caches.append((_cache_title(host, cache), [cores]))
    return svg.grid(svg.frames(caches, "cache"))


def _cache_title(host: Host, cache: CachePart) -> str:
    known = host.caches.get(cache.number)
    if known is None:
        return "LLC unknown"
    size = f" {cache_size(known.size)}" if known.size else ""
    elsewhere = host.topology.caches[cache.number] - cache.cpus
    return f"LLC {cache.number} · L{known.level}{size}" + (", in part" if elsewhere else "")


def cache_size(size: int) -> str:
    """Return the size of a cache for people: "35.75 MiB", "512 KiB"."""
    if size < _MEBI:
        return f"{size // 1024} KiB"
    whole, hundredths = divmod(size * 100 // _MEBI, 100)
    return (f"{whole}.{hundredths:02d}".rstrip("0").rstrip(".")) + " MiB"


def _core(host: Host, core: Core, place: str, holders: Mapping[int, str]) -> Box:
    boxes = []
    for cpu in core.cpus:
        kind = host.kind(cpu)
        use = ": ".join(filter(None, (kind, holders.get(cpu))))
        tooltip = f"CPU {cpu}: core {core.number}, {place}" + (f" ({use})" if use else "")
        boxes.append(_thread(cpu, _kind_style(host, kind), "number", tooltip))
    threads = svg.row(boxes, gap=2)
    width, height = threads.width + 6, threads.height + 6
    return Box(width, height, svg.rectangle(width, height, "core") + svg.at(3, 3, threads))


def _kind_styles(host: Host) -> str:
    used = zip(_KIND_STYLES, _KIND_COLORS, range(max(3, len(host.kinds))), strict=False)
    return "".join(
        f".{style}{{fill:{fill};stroke:{line};stroke-width:.8}}" for style, (fill, line), _ in used
    )


def _kind_style(host: Host, kind: str) -> str:
    kinds = list(host.kinds)
    return _KIND_STYLES[kinds.index(kind) % len(_KIND_STYLES)] if kind in kinds else _KIND_STYLES[0]


def _thread(cpu: int, style: str, number_style: str, tooltip: str) -> Box:
    shape = svg.rectangle(_THREAD_WIDTH, _THREAD_HEIGHT, style, tooltip=tooltip)
    number = svg.text(_THREAD_WIDTH / 2, 14, str(cpu), size=_NUMBER_SIZE, style=number_style)
    return Box(_THREAD_WIDTH, _THREAD_HEIGHT, shape + number)


def _offline(cpus: CPUSet, title: str) -> list[Box]:
    cells = [_thread(cpu, "offline", "gone", f"CPU {cpu}: offline") for cpu in cpus]
    return svg.frames([(title, [svg.grid(cells, gap=4)])], "core") if cells else []


def _legend(host: Host) -> Box:
    kinds = [(_kind_style(host, kind), kind) for kind, cpus in host.kinds.items() if cpus]
    kinds = kinds or [("kind0", "CPU (thread)")]
    frames = [("core", "core"), ("cache", "last-level cache"), ("numa", "NUMA node"), ("socket", "socket")]
    offline = [("offline", "offline CPU")] if host.offline else []
    entries = [_entry(style, words) for style, words in dict.fromkeys([*kinds, *offline, *frames])]
    side_by_side = svg.row(entries, gap=16)
    return side_by_side if side_by_side.width <= _WIDEST_ROW else svg.grid(entries, gap=12)


def _entry(style: str, words: str) -> Box:
    swatch = svg.rectangle(18, 14, style)
    return Box(24 + svg.text_width(words), 16, swatch + svg.text(24, 11, words, style="line"))
