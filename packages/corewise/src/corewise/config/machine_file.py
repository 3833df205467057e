"""A machine as ``corewise topology -o json`` prints it, written and read back.

Only ``threads`` is required; what is absent is unknown, as on a machine whose kernel does not report it. The
document states some things twice (threads and lists of CPUs): where the two disagree it is refused.
"""

from __future__ import annotations

from decimal import Decimal
from types import MappingProxyType
from typing import Any

from corewise.config.decoding import Decoder, Fields, Parsed, Place
from corewise.config.json_text import Items, read_json
from corewise.quantities import Bytes
from corewise.topology import (
    LARGEST_CPU,
    CPUSet,
    CPUSetError,
    Host,
    LastLevelCache,
    NumaMemory,
    Thread,
    Topology,
)

_KEYS = (
    "cpuModel",
    "vendorID",
    "hyperThreadEnabled",
    "turboEnabled",
    "catL3CbmMask",
    "onlineCPUs",
    "offlineCPUs",
    "memoryBytes",
    "coreKinds",
    "numaNodes",
    "caches",
    "threads",
    "problems",
)
_NODE_KEYS = ("numaNode", "onlineCPUs", "offlineCPUs", "memoryBytes", "hugepagesBytes")
_CACHE_KEYS = ("cache", "level", "sizeBytes", "onlineCPUs")
_THREAD_KEYS = ("cpu", "core", "cache", "numaNode", "socket")
_LARGEST_ID = 1 << 31
_LARGEST_AMOUNT = 1 << 60


def machine_document(host: Host) -> dict[str, Any]:
    """Return the document of a machine's CPUs, memory and caches."""
    return {
        "onlineCPUs": str(host.topology.cpus),
        "offlineCPUs": str(host.offline_cpus),
        "memoryBytes": host.memory_total,
        "coreKinds": {kind: str(cpus) for kind, cpus in host.kinds.items()},
        "numaNodes": [_node_record(host, node) for node in host.numa_nodes],
        "caches": [_cache_record(host, cache) for cache in host.caches],
        "threads": [
            {
                "cpu": thread.cpu,
                "core": thread.core,
                "cache": thread.cache if thread.cache in host.caches else None,
                "numaNode": thread.numa_node,
                "socket": thread.socket,
            }
            for thread in host.topology.threads
        ],
    }


def _node_record(host: Host, node: int) -> dict[str, Any]:
    memory = host.memory.get(node)
    return {
        "numaNode": node,
        "onlineCPUs": str(host.numa_nodes[node]),
        "offlineCPUs": str(host.offline_of(node)),
        "memoryBytes": memory.total if memory else None,
        "hugepagesBytes": memory.hugepages if memory else None,
    }


def _cache_record(host: Host, cache: int) -> dict[str, Any]:
    known = host.caches[cache]
    cpus = str(host.topology.caches.get(cache, CPUSet()))
    return {"cache": cache, "level": known.level, "sizeBytes": known.size, "onlineCPUs": cpus}


def parse_machine(text: str) -> Parsed[Host]:
    """Read the document; each problem has its line and column."""
    decoder = Decoder(read_json(text))
    return decoder.finish(_Machine(decoder).host())


class _Machine:
    """The document while it is read."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._fields = decoder.fields(decoder.root, _KEYS)

    def host(self) -> Host:
        decoder, stated = self._decoder, self._fields
        threads = self._threads()
        online = CPUSet.of(thread.cpu for thread in threads)
        self._agree(stated["onlineCPUs"], online, "the threads are those of CPUs")
        offline: dict[int, int | None] = dict.fromkeys(self._cpus(stated["offlineCPUs"]) or ())
        memory: dict[int, NumaMemory] = {}
        for place in decoder.items(stated["numaNodes"]):
            node = decoder.fields(place, _NODE_KEYS)
            number = self._number(node["numaNode"])
            number = -1 if number is None else number
            own = CPUSet.of(thread.cpu for thread in threads if thread.numa_node == number)
            self._agree(node["onlineCPUs"], own, f"the threads of NUMA node {number} are those of CPUs")
            offline |= dict.fromkeys(self._cpus(node["offlineCPUs"]) or (), number)
            total, hugepages = self._bytes(node["memoryBytes"]), self._bytes(node["hugepagesBytes"])
            if total is not None:
                memory[number] = NumaMemory(total, hugepages or Bytes(0))
        both = online & CPUSet.of(offline)
        if both:
            decoder.error(stated["offlineCPUs"], f"CPUs {both} are online and offline at once")
        caches: dict[int, LastLevelCache] = {}
        for place in decoder.items(stated["caches"]):
            cache = decoder.fields(place, _CACHE_KEYS)
            known, level = self._number(cache["cache"]), self._number(cache["level"])
            size = self._bytes(cache["sizeBytes"])
            if known is not None and level is not None:
                caches[known] = LastLevelCache(level, size)
        kinds = decoder.entries(stated["coreKinds"])
        return Host(
            topology=Topology(tuple(threads)),
            offline=MappingProxyType({cpu: offline[cpu] for cpu in sorted(offline)}),
            memory=MappingProxyType(memory),
            memory_total=self._bytes(stated["memoryBytes"]),
            caches=MappingProxyType(caches),
            kinds=MappingProxyType({str(key.value): self._cpus(cpus) or CPUSet() for key, cpus in kinds}),
        )

    def _threads(self) -> list[Thread]:
        stated = self._fields["threads"]
        places = self._decoder.items(stated)
        if (stated.is_empty or stated.value == Items()) and not self._decoder.problems:
            hint = "make one with corewise topology -o json"
            self._decoder.error(self._decoder.root, f'there are no "threads": {hint}')
        found: dict[int, Thread] = {}
        for place in places:
            thread = self._thread(self._decoder.fields(place, _THREAD_KEYS))
            if thread is not None and thread.cpu in found:
                self._decoder.error(place, f"CPU {thread.cpu} is there twice")
            elif thread is not None:
                found[thread.cpu] = thread
        self._undivided(found)
        return self._with_caches(found)

    def _thread(self, fields: Fields) -> Thread | None:
        """Return a thread; its cache is -1 where the document says that it is unknown."""
        cpu = self._number(fields["cpu"], LARGEST_CPU)
        core = self._number(fields["core"])
        node = self._number(fields["numaNode"])
        socket = self._number(fields["socket"])
        cache = None if fields["cache"].is_empty else self._number(fields["cache"])
        if cpu is None or core is None or node is None or socket is None:
            return None
        return Thread(cpu, core, -1 if cache is None else cache, node, socket)

    def _undivided(self, found: dict[int, Thread]) -> None:
        """Report a core in two places: its number was given again in another socket."""
        places: dict[int, tuple[int, int]] = {}
        for thread in found.values():
            where = thread.socket, thread.numa_node
            if places.setdefault(thread.core, where) != where:
                message = f"core {thread.core} is in two places: cores are numbered across the whole machine"
                self._decoder.error(self._fields["threads"], message)
                return

    @staticmethod
    def _with_caches(found: dict[int, Thread]) -> list[Thread]:
        """Give the CPUs of unknown caches those that the reader of /sys gives: one a NUMA node and socket."""
        number = max((thread.cache for thread in found.values()), default=-1)
        unknown: dict[tuple[int, int], int] = {}
        threads = []
        for thread in sorted(found.values(), key=lambda each: each.cpu):
            cache = thread.cache
            if cache < 0:
                where = thread.socket, thread.numa_node
                cache = unknown.setdefault(where, number + 1 + len(unknown))
            threads.append(Thread(thread.cpu, thread.core, cache, thread.numa_node, thread.socket))
        return threads

    def _agree(self, place: Place, cpus: CPUSet, what: str) -> None:
        stated = self._cpus(place)
        if stated is not None and stated != cpus:
            self._decoder.error(place, f"says CPUs {stated or 'none'}, but {what} {cpus or 'none'}")

    def _cpus(self, place: Place) -> CPUSet | None:
        text = self._decoder.text(place)
        if text is None:
            return None
        try:
            return CPUSet.parse(text)
        except CPUSetError as error:
            self._decoder.error(place, str(error))
            return None

    def _number(self, place: Place, largest: int = _LARGEST_ID) -> int | None:
        value = place.value
        if isinstance(value, Decimal) and 0 <= value <= largest and not value % 1:
            return int(value)
        if value is None:
            self._decoder.error(place, "is missing")
        return self._decoder.whole(place, 0, largest)

    def _bytes(self, place: Place) -> Bytes | None:
        amount = self._decoder.whole(place, 0, _LARGEST_AMOUNT)
        return None if amount is None else Bytes(amount)
