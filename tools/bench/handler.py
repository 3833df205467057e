"""The extender's work between the bytes of a call and those of its answer, in one process, by parts.

A pod is a call of /filter and one of /prioritize about what filter has let through. Times are CPU time.
"""

from __future__ import annotations

import time
from functools import partial

import msgspec

from corewise.engine import assemble
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.config import ClusterConfig
from corewise.scheduler.decisions import Decisions
from corewise.scheduler.extender import Extender, decode_arguments, encode_filtered
from corewise.scheduler.state import ClusterState
from tools.bench import engine, fleet
from tools.bench.shares import Function, shares
from tools.bench.table import Row, quantile

_CALLS = 300
_REMEMBERED = 50
_POD = {
    "metadata": {"name": "p", "namespace": "default", "uid": "u"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}}]},
}
_PARTS: dict[str, Function] = {
    "arguments read": ("scheduler/extender.py", "decode_arguments"),
    "names looked up": ("scheduler/node_names.py", "rows_of"),
    "the pod read": ("engine/reading.py", "pod_facts"),
    "decision": ("engine/framework.py", "decide"),
    "refusals": ("scheduler/extender.py", "_refusals"),
    "decision remembered": ("scheduler/decisions.py", "remember"),
    "nodes written": ("scheduler/extender.py", "encode_filtered"),
    "scores written": ("scheduler/node_names.py", "scored"),
}


_SHARES_AT = 5_000
"""Nodes. The shares at other sizes say little more, and a sample is of these."""


async def measure(counts: tuple[int, ...]) -> list[Row]:
    """Both calls about all nodes, at each number of nodes."""
    return [row for count in counts for row in _measure(count)]


async def sample() -> dict[str, float]:
    """Return the p50 of both calls together about 5,000 nodes, in microseconds."""
    extender, bodies = _made(_SHARES_AT)
    times = [sum(_both(extender, bodies[turn % len(bodies)])) for turn in range(_CALLS)]
    return {"extender": quantile(times, 0.5) * 1e6}


def _made(count: int) -> tuple[Extender, list[bytes]]:
    """Return an extender that knows nodes, and bodies of calls with their names, each in another order."""
    state = ClusterState(Client(ClusterConfig(server="http://127.0.0.1:1")), SYSTEM_CLOCK)
    for index in range(count):
        state.counted.cluster.put_node(engine.node(index))
    plugins = assemble()
    extender = Extender(state, lambda: plugins, Decisions(_REMEMBERED, SYSTEM_CLOCK), lambda _pod, _why: None)
    names = [engine.node(index).name for index in range(count)]
    return extender, [_body(fleet.as_sent(names, count, turn)) for turn in range(10)]


def _measure(count: int) -> list[Row]:
    extender, bodies = _made(count)
    times = [_both(extender, bodies[turn % len(bodies)]) for turn in range(_CALLS)]
    at = f"{count} names, {count} nodes"
    p50 = ", ".join(f"{quantile([each[verb] for each in times], 0.5) * 1e3:.2f} ms" for verb in (0, 1))
    rows = [Row("handler of /filter and of /prioritize, p50", at, p50)]
    if count == _SHARES_AT:
        rows.append(Row("where the time goes", at, shares(partial(_many, extender, bodies), _PARTS)))
    return rows


def _both(extender: Extender, body: bytes) -> tuple[float, float]:
    began = time.process_time()
    arguments = decode_arguments(body)
    filtered = extender.filter(arguments)
    encode_filtered(arguments, filtered)
    between = time.process_time()
    following = _body(msgspec.Raw(filtered.names.array))
    again = time.process_time()
    asked = decode_arguments(following)
    asked.names.scored(extender.prioritize(asked))
    return between - began, time.process_time() - again


def _many(extender: Extender, bodies: list[bytes]) -> None:
    for body in bodies * 3:
        _both(extender, body)


def _body(names: object) -> bytes:
    return msgspec.json.encode({"Pod": _POD, "Nodes": None, "NodeNames": names})
