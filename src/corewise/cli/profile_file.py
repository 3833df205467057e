"""A history as a file, for ``corewise profile --history`` and ``--save-history``: JSON, times in seconds.

::

    {"start": 0, "end": 604800,
     "nodes": {"n1": {"speed": 1.0, "against": {"memorybandwidth": 1.07e11},
                      "series": {"memorybandwidth": [[0, 4.1e10], [60, 4.3e10]]}}},
     "pods": [{"name": "default/sort-1", "type": "sort", "node": "n1", "start": 30, "end": 1830,
               "use": {"cpu": [[60, 1.9]], "memoryBandwidth": [[60, 5.0e9]]}}]}

Series of nodes are named as the metrics of the configuration are (memorybandwidth, memorylatency,
llc_occupancy, llc_mpki, cpu), those of pods as the amounts of a profile (memoryBandwidth, memory, cpu, llc),
or ``cpi``. ``against``: what the values of a metric are a share of on this node. ``end`` of a pod is when it
finished its work; without it, it did not. ``gone`` is when it ran no longer, if that is not its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from corewise.cli.errors import ExitCode, Failure
from corewise.config.interference import Metric
from corewise.interference.analysis import AMOUNTS
from corewise.interference.history import CPI, NEVER_ZERO, History, PodRecord, Series
from corewise.vocabulary.errors import UNREADABLE

Points = list[tuple[float, float]]
_POD_SERIES = frozenset({*AMOUNTS, CPI})


class _Node(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    series: dict[Metric, Points]
    speed: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    against: dict[Metric, Annotated[float, msgspec.Meta(gt=0)]] = msgspec.field(default_factory=dict)


class _Pod(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    type: str
    node: str
    start: float
    end: float | None = None
    use: dict[str, Points] = msgspec.field(default_factory=dict)
    gone: float | None = None


class _History(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    start: float
    end: float
    nodes: dict[str, _Node]
    pods: list[_Pod]


def read_history(file: Path) -> History:
    """Read a history.

    Raises:
        Failure: if the file cannot be read or is none.
    """
    try:
        read = msgspec.json.decode(file.read_bytes(), type=_History)
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}") from None
    except UNREADABLE as error:
        hint = "docs/profile.md says what a history holds"
        raise Failure(f"{file} is no history: {error}", hint=hint) from None
    return _history(file, read)


def write_history(file: Path, history: History) -> None:
    """Write a history.

    Raises:
        Failure: if the file cannot be written.
    """
    nodes = {
        name: _Node(
            {Metric(metric): _points(each) for metric, each in series.items()},
            history.speed.get(name, 1.0),
            {Metric(metric): value for metric, value in history.against.get(name, {}).items()},
        )
        for name, series in history.nodes.items()
    }
    pods = [
        _Pod(
            name=pod.name,
            type=pod.type,
            node=pod.node,
            start=pod.start,
            end=pod.end,
            use={what: _points(each) for what, each in pod.use.items()},
            gone=pod.gone,
        )
        for pod in history.pods
    ]
    try:
        file.write_bytes(msgspec.json.encode(_History(history.start, history.end, nodes, pods)))
    except OSError as error:
        message = f"{file} cannot be written: {error.strerror}"
        raise Failure(message, exit_code=ExitCode.OUTPUT) from None


def _points(series: Series) -> Points:
    return list(zip(series.times.tolist(), series.values.tolist(), strict=True))


def _history(file: Path, read: _History) -> History:
    for number, pod in enumerate(read.pods):
        unknown = pod.use.keys() - _POD_SERIES
        if unknown:
            known = ", ".join((*AMOUNTS, CPI))
            raise Failure(f"{file}: pods[{number}].use has {min(unknown)!r}; known are {known}")
        if pod.end is not None and pod.end <= pod.start:
            raise Failure(f"{file}: pods[{number}] ({pod.name}) ends before it starts")
    return History(
        start=read.start,
        end=read.end,
        nodes={name: series_of(_named(node.series)) for name, node in read.nodes.items()},
        pods=[_pod_record(each) for each in read.pods],
        speed={name: node.speed for name, node in read.nodes.items()},
        against={
            name: {str(metric): value for metric, value in node.against.items()}
            for name, node in read.nodes.items()
        },
    )


def _pod_record(pod: _Pod) -> PodRecord:
    return PodRecord(pod.name, pod.type, pod.node, pod.start, pod.end, series_of(pod.use), pod.gone)


def _named(points: Mapping[Metric, Points]) -> dict[str, Points]:
    return {str(metric): each for metric, each in points.items()}


def series_of(points: Mapping[str, Points]) -> dict[str, Series]:
    """Return series of points, without the values that cannot be."""
    return {
        str(name): Series.of(each, zero_is_missing=name in NEVER_ZERO)
        for name, each in points.items()
        if each
    }
