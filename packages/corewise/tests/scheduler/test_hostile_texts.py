"""What one node or pod writes costs the scheduler and the manager a bounded amount of memory.

A compromised node writes another annotation of the largest size every second. What was read of the texts
before is kept in caches; each test writes more than its cache may hold, and counts the bytes that stay.
"""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from corewise.amplification import annotations as amplification
from corewise.engine import reading
from corewise.quantities import offered, requested
from corewise.ratios import nodes as assessment
from corewise.scheduler import late_owners
from corewise.vocabulary import cpu_annotations, owned_cpus
from corewise.vocabulary.names import OWNED_CPUS, OWNED_MILLI_CPU, RECORD_GENERATION
from corewise.vocabulary.text_cache import MIB, TextCache, remembered

LARGEST_ANNOTATIONS = 256 * 1024
"""Characters: the API server takes no more of one object."""


def ledger(number: int, entries: int = 1500) -> dict[str, str]:
    """Return a ledger of the largest length, in which every entry is good."""
    owners = {
        f"{number:08x}-{cpu:027x}": {"pod": f"n/p{cpu}", "cpus": str(cpu), "bind": f"{number:08x}"}
        for cpu in range(entries)
    }
    return {
        OWNED_CPUS: json.dumps(owners, separators=(",", ":")),
        OWNED_MILLI_CPU: str(len(owners) * 1000),
    }


def wide_ledger(number: int) -> dict[str, str]:
    """Return a short text that names all the CPUs of the largest machine."""
    text = json.dumps({"u": {"pod": "a/b", "cpus": "0-8191", "bind": str(number)}})
    return {OWNED_CPUS: text, OWNED_MILLI_CPU: "8192000"}


def ratios(number: int) -> str:
    text = ",".join(f'"{number + each:x}":1' for each in range(110))
    return f"{{{text}}}"


def topology(number: int) -> str:
    cpus = [{"id": cpu, "core": cpu, "socket": 0, "node": 0} for cpu in range(1000)]
    return json.dumps({"of": number, "detail": cpus})


def kubelets_cpus(number: int) -> str:
    return json.dumps([{"uid": f"{number}", "cpuset": "0-4095", "managedByKubelet": True}])


CASES: dict[str, tuple[TextCache[..., Any], int, Callable[[int], object]]] = {
    "ledgers of many entries": (owned_cpus._read, 70, lambda n: owned_cpus.read_owned_cpus(ledger(n))),
    "ledgers of many CPUs": (owned_cpus._read, 60, lambda n: owned_cpus.read_owned_cpus(wide_ledger(n))),
    "records": (
        amplification._read_texts,
        120,
        lambda n: amplification.read_node({RECORD_GENERATION: f"{n}".ljust(LARGEST_ANNOTATIONS)}),
    ),
    "ratios": (
        amplification._read_ratios,
        200,
        lambda n: amplification.read_ratios(ratios(n), annotation="a"),
    ),
    "amounts": (
        amplification.read_amounts,
        100,
        lambda n: amplification.read_amounts(f"{n}".ljust(LARGEST_ANNOTATIONS)),
    ),
    "CPUs of pods": (
        cpu_annotations._parsed,
        60,
        lambda n: cpu_annotations.parse_resource_status('{"cpuset":"0-4095"}' + " " * n),
    ),
    "kubelet's CPUs": (
        late_owners._reports,
        100,
        lambda n: late_owners._reports(
            json.dumps([{"uid": f"{n}", "cpuset": "0-4095", "managedByKubelet": True}])
        ),
    ),
    "CPU topologies": (reading._parsed_topology, 70, lambda n: reading._parsed_topology(topology(n))),
    "CPU facts": (
        assessment._read_facts,
        60,
        lambda n: assessment._read_facts(json.dumps({"cpuModel": f"{n}".ljust(LARGEST_ANNOTATIONS, "x")})),
    ),
}


@pytest.fixture
def traced() -> Iterator[Callable[[], int]]:
    """Count the bytes that Python has allocated since, and still holds."""
    gc.collect()
    tracemalloc.start()

    def held() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    yield held
    tracemalloc.stop()


@pytest.mark.parametrize(("cache", "times", "write"), CASES.values(), ids=CASES)
def test_hostile_texts_never_exceed_the_caches_memory_limit(
    traced: Callable[[], int], cache: TextCache[..., Any], times: int, write: Callable[[int], object]
) -> None:
    for number in range(times):
        write(number)
    assert cache.weight <= cache.most
    assert traced() <= cache.most + MIB


def test_amounts_that_are_no_amounts_are_not_remembered(traced: Callable[[], int]) -> None:
    for number in range(100):
        text = f"{number}".ljust(LARGEST_ANNOTATIONS, "0")
        assert offered(text) is None
        assert requested("memory", text).units > 0
    assert traced() <= MIB


def test_report_giving_many_pods_same_cpus_is_ignored() -> None:
    pods = [{"uid": f"u{each}", "cpuset": "0-8191", "managedByKubelet": True} for each in range(3)]
    assert late_owners._reports(json.dumps(pods)) == {}
    assert set(late_owners._reports(json.dumps(pods[:1]))) == {"u0"}


def test_cache_forgets_entries_not_requested_lately_keeping_others() -> None:
    asked: list[str] = []

    @remembered(most=160, weigh=lambda _result, text: len(text))
    def read(text: str) -> str:
        asked.append(text)
        return text.upper()

    for number in range(40):
        assert read("often") == "OFTEN"
        assert read(f"rare-{number}") == f"RARE-{number}"
        assert read.weight <= read.most
    assert asked.count("often") == 1
    read("rare-0")
    assert asked.count("rare-0") == 2
    for _ in range(2):
        read("longer than it keeps")
    assert asked.count("longer than it keeps") == 2
