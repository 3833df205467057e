"""The table of what corewise is compared with: ratios of pairs, from the files that the measurements keep.

A ratio is corewise's figure relative to the other's, so 1 is no difference. It is the median of the pairs'
ratios with its 95 % interval, or with the lowest and the highest where there are fewer than six pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from experiments.interference_cluster import rate
from experiments.interference_cluster.cells import STOCK
from experiments.interference_cluster.command import read as read_cells
from experiments.interference_cluster.command import read_rates
from experiments.latency import command as latency
from experiments.latency.arms import ALONE, PUBLISHED
from experiments.latency.figures import quantile, stacked
from experiments.latency.trials import Case
from tools.bench.comparing import amount, interval
from tools.bench.records import HEADLINE_FIGURES, ROOT, Record, read

_EXPERIMENTS = ROOT / "experiments"
_LATENCY = {"2 CPUs, cgroup v1": "cgroup-v1-2-cpus", "16 CPUs, cgroup v2": "cgroup-v2-16-cpus"}
_ARMS = {name: arm for arm, name in PUBLISHED.items()}
_COREWISE = "corewise"
_HELD_BACK = {
    ALONE: "no offline work",
    _ARMS["weights"]: "kubelet's CPU weights alone",
    _ARMS["option 1"]: "weights, and the same quota in periods of 100 ms",
}
_CASE = Case(size=0.1, load=0.5, antagonist="spin")
_OFFLINE = "[offline work](../concepts/offline-cost.md)"
_CLUSTER = "[interference](interference-cluster.md)"


@dataclass(frozen=True, slots=True)
class Compared:
    """One comparison: the alternative, the figure, each pair's ratio, and the page that it is measured in."""

    other: str
    figure: str
    ratios: Sequence[float]
    page: str

    def row(self) -> str:
        """Return the row of the table."""
        found = interval(self.ratios)
        shown = f"{amount(found.value)} ({amount(found.low)} to {amount(found.high)})"
        return f"| {self.other} | {self.figure} | {len(self.ratios)} | {shown} | {self.page} |"


def table() -> str:
    """Return the table."""
    lines = ["| compared with | figure | pairs | ratio (interval) | measured in |", "|---" * 5 + "|"]
    found = (*_latencies(), *_scheduling(), _parsing(read(HEADLINE_FIGURES)))
    return "\n".join([*lines, *(each.row() for each in found)])


def _latencies() -> Iterator[Compared]:
    """Yield p99 beside offline work, relative to what else holds offline work back."""
    folder = _EXPERIMENTS / "latency" / "data"
    trials = {machine: latency.read(folder / f"{name}.jsonl")[1] for machine, name in _LATENCY.items()}
    for other, described in _HELD_BACK.items():
        for machine, of_machine in trials.items():
            arms = [
                {
                    each.repetition: each.latencies
                    for each in of_machine
                    if (each.case, each.arm) == (_CASE, arm)
                }
                for arm in (_ARMS[_COREWISE], other)
            ]
            both = sorted(arms[0].keys() & arms[1].keys())
            ours, theirs = (quantile(stacked([arm[each] for each in both]), 0.99) for arm in arms)
            figure = f"p99 beside offline work, {machine}"
            yield Compared(described, figure, (ours / theirs).tolist(), _OFFLINE)


def _scheduling() -> Iterator[Compared]:
    """Yield comparisons with kube-scheduler alone: its rate, and how much pods slow each other down."""
    data, other = _EXPERIMENTS / "interference_cluster" / "data", "kube-scheduler alone"
    for name, limit in (("rate", "at most 50 requests a second"), ("rate-unlimited", "without that limit")):
        runs = [each for each in read_rates(data / f"{name}.jsonl") if each.profiled and each.nodes == 100]
        speeds = {(each.arm, each.pair): each.per_second for each in runs}
        figure = f"pods/s, one pod in ten with a profile, {limit}"
        yield Compared(other, figure, _of_pairs(speeds, rate.ALONE), _CLUSTER)
    cells = read_cells(data / "mixes.jsonl")
    for mix, described in (("even", "all kinds of pods"), ("cache", "cache-sensitive pods")):
        slowdowns = {(each.arm, each.seed): each.slowdown for each in cells if each.mix == mix}
        figure = f"mean slowdown by other pods, {described}"
        yield Compared(other, figure, _of_pairs(slowdowns, STOCK), _CLUSTER)


def _of_pairs(values: Mapping[tuple[str, int], float], other: str) -> list[float]:
    """Return the ratio of corewise to another arm for each pair that has both, by arm and pair."""
    pairs = sorted(number for arm, number in values if arm == _COREWISE and (other, number) in values)
    return [values[_COREWISE, each] / values[other, each] for each in pairs]


def _parsing(headlines: Record) -> Compared:
    """Return the time of a watch event relative to Python's own reading of its JSON."""
    own, theirs = (headlines.samples[name] for name in ("event", "json-loads"))
    ratios = [one / other for one, other in zip(own, theirs, strict=True)]
    figure = "CPU time of a Pod's watch event, received and decoded"
    return Compared("`json.loads` of its line", figure, ratios, "this page")
