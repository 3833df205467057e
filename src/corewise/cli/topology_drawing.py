"""A machine as a drawing: sockets hold NUMA nodes, those last-level caches, those cores, those CPUs.

Offline CPUs are hatched, in the NUMA node that they belong to: the kernel does not tell which core. Kinds of
CPUs have a colour each, whatever they are told apart by: how they are built, or who holds them. A tooltip
names everything a CPU belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from corewise.cli import svg
from corewise.cli.machine_tree import CachePart, Core, NumaPart, Socket, nodes_elsewhere, sockets_of
from corewise.cli.output import count, gibibytes
from corewise.cli.svg import Box
from corewise.topology import CPUSet, Host

_THREAD_WIDTH = 30
_THREAD_HEIGHT = 20
_NUMBER_SIZE = 11
_HEADING_SIZE = 17
_MARGIN = 16
_WIDEST_ROW = 1500
_MEBI = 1024**2
_KIND_COLOURS = (
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
_KIND_STYLES = tuple(f"kind{index}" for index in range(len(_KIND_COLOURS)))

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


def drawing(host: Host, heading: str, lines: Sequence[str]) -> str:
    """Return the machine as an SVG file; ``heading`` and ``lines`` stand above it."""
    boxes = [_header(heading, lines), _fitting(_sockets(host))]
    elsewhere = svg.frames((_cpuless(host, node) for node in nodes_elsewhere(host)), "numa")
    boxes += [svg.row(elsewhere)] if elsewhere else []
    boxes += _offline(host.offline_of(None), "offline, NUMA node unknown")
    inside = svg.column([*boxes, _legend(host)], gap=12)
    page = Box(inside.width + 2 * _MARGIN, inside.height + 2 * _MARGIN, svg.at(_MARGIN, _MARGIN, inside))
    return svg.document(page, label=heading, styles=_STYLES + _kind_styles(host), definitions=_HATCH)


def _header(heading: str, lines: Sequence[str]) -> Box:
    words = [svg.text(0, 16, heading, size=_HEADING_SIZE, style="heading")]
    words += [svg.text(0, 36 + 17 * index, line, style="line") for index, line in enumerate(lines)]
    width = max(svg.text_width(heading, _HEADING_SIZE), *(svg.text_width(line) for line in lines), 0)
    return Box(width, 24 + 17 * len(lines), "".join(words))


def _fitting(boxes: Sequence[Box]) -> Box:
    """Return boxes side by side if that is not too wide."""
    side_by_side = svg.row(boxes, gap=12)
    return side_by_side if side_by_side.width <= _WIDEST_ROW else svg.column(boxes, gap=12)


def _sockets(host: Host) -> list[Box]:
    sockets = sockets_of(host)
    titles = [f"Socket {each.number} · {count(each.cores, 'core')}" for each in sockets]
    return svg.frames(zip(titles, ([_nodes(host, each)] for each in sockets), strict=True), "socket")


def _nodes(host: Host, socket: Socket) -> Box:
    titles = [_node_title(host, node.number) for node in socket.nodes]
    insides = ([_caches(host, socket, node), *_offline_in(host, node)] for node in socket.nodes)
    return svg.grid(svg.frames(zip(titles, insides, strict=True), "numa"))


def _offline_in(host: Host, node: NumaPart) -> list[Box]:
    return _offline(host.offline_of(node.number), "offline") if node.first else []


def _node_title(host: Host, node: int) -> str:
    memory = host.memory.get(node)
    if memory is None:
        return f"NUMA {node}"
    hugepages = f", {gibibytes(memory.hugepages)} in hugepages" if memory.hugepages else ""
    return f"NUMA {node} · {gibibytes(memory.total)} GiB{hugepages}"


def _cpuless(host: Host, node: int) -> tuple[str, list[Box]]:
    return f"{_node_title(host, node)} · no CPU online", _offline(host.offline_of(node), "offline")


def _caches(host: Host, socket: Socket, node: NumaPart) -> Box:
    titles = [_cache_title(host, cache) for cache in node.caches]
    places = [f"LLC {cache.number}, NUMA {node.number}, socket {socket.number}" for cache in node.caches]
    insides = ([_cores(host, cache, place)] for cache, place in zip(node.caches, places, strict=True))
    return svg.grid(svg.frames(zip(titles, insides, strict=True), "cache"))


def _cores(host: Host, cache: CachePart, place: str) -> Box:
    return svg.grid([_core(host, core, place) for core in cache.cores], gap=4)


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


def _core(host: Host, core: Core, place: str) -> Box:
    where = f"core {core.number}, {place}"
    threads = svg.row([_online(host, cpu, where) for cpu in core.cpus], gap=2)
    width, height = threads.width + 6, threads.height + 6
    return Box(width, height, svg.rectangle(width, height, "core") + svg.at(3, 3, threads))


def _online(host: Host, cpu: int, where: str) -> Box:
    kind = host.kind(cpu)
    tooltip = f"CPU {cpu}: {where}" + (f" ({kind})" if kind else "")
    return _thread(cpu, _kind_style(host, kind), "number", tooltip)


def _kind_styles(host: Host) -> str:
    used = zip(_KIND_STYLES, _KIND_COLOURS, range(max(3, len(host.kinds))), strict=False)
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
    kinds = [(_kind_style(host, kind), kind) for kind in host.kinds] or [("kind0", "CPU (thread)")]
    frames = [("core", "core"), ("cache", "last-level cache"), ("numa", "NUMA node"), ("socket", "socket")]
    offline = [("offline", "offline CPU")] if host.offline else []
    entries = [_entry(style, words) for style, words in _distinct([*kinds, *offline, *frames])]
    side_by_side = svg.row(entries, gap=16)
    return side_by_side if side_by_side.width <= _WIDEST_ROW else svg.grid(entries, gap=12)


def _distinct(entries: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return list(dict.fromkeys(entries))


def _entry(style: str, words: str) -> Box:
    swatch = svg.rectangle(18, 14, style)
    return Box(24 + svg.text_width(words), 16, swatch + svg.text(24, 11, words, style="line"))
