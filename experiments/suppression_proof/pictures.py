"""The pictures of the proof: what online and offline pods got, and how quotas moved, over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from corewise.quantities import MILLI
from experiments.chart import Curve, Panel, chart
from experiments.suppression_proof.closed_loop import Sample
from experiments.suppression_proof.run import COUNTING, COUNTING_AT_ONCE, OPTION_ONE, OPTION_TWO, Run

FOLDER = Path("docs/pictures")
COMMAND = "python -m experiments.suppression_proof"


def draw(part: str, runs: Sequence[Run], where: str) -> Iterator[str]:
    """Write a part's pictures; yield their names."""
    followed = _first(runs, _FOLLOWED, OPTION_ONE, OPTION_TWO)
    pictures = {
        f"suppression-{part}": [_followed(run, where) for run in followed],
        f"suppression-{part}-formulas": list(_compared(runs, where)),
    }
    for name, panels in pictures.items():
        if panels:
            text = chart(panels, label=f"{name.replace('-', ' ')}, {where}", made_by=f"{COMMAND} {part}")
            (FOLDER / f"{name}.svg").write_text(text)
            yield name


def _first(runs: Sequence[Run], scenarios: Sequence[str], *ways: str) -> list[Run]:
    """Return the first round of each of these scenarios in these ways."""
    found: dict[tuple[str, str], Run] = {}
    for run in runs:
        if run.way in ways and run.scenario in scenarios:
            found.setdefault((run.scenario, run.way), run)
    return list(found.values())


def _followed(run: Run, where: str) -> Panel:
    """Return a panel of the CPU that online and offline pods got, and of the quota and its target."""
    curves = [
        _curve(run, "online pods want", "online", lambda sample: sample.online_wanted),
        _curve(run, "offline pods use", "offline", lambda sample: sample.offline),
        _quota(run, "quota", "quota"),
    ]
    if run.way == OPTION_ONE:
        curves.append(_curve(run, "target", "target", lambda sample: sample.target / MILLI))
    return _panel(run, f"{run.scenario}, {run.way}, {where}", curves)


def _compared(runs: Sequence[Run], where: str) -> Iterator[Panel]:
    """Yield panels of the CPU that offline pods may use by each formula, and that online pods leave."""
    for scenario, load in _COMPARED.items():
        shown = _first(runs, [scenario], *_STYLES)
        if len(shown) > 1:
            quotas = [_quota(run, _NAMES.get(run.way, run.way), _STYLES[run.way]) for run in shown]
            title = f"quota of offline pods by formula, {load}, {where}"
            yield _panel(shown[0], title, [_left(shown[0]), *quotas])


def _left(run: Run) -> Curve:
    cpus = run.series.cpus
    return _curve(run, "online pods leave", "idle", lambda sample: cpus - sample.online_wanted)


_STYLES = {OPTION_ONE: "offline", COUNTING: "quota", COUNTING_AT_ONCE: "other"}
_FOLLOWED = ("step", "ramp", "square")
_COMPARED = {"step": "step", "threads": "step on hyper-threads"}
_NAMES = {OPTION_ONE: "corewise: offline usage taken out"}


def _panel(run: Run, title: str, curves: Sequence[Curve]) -> Panel:
    return Panel(title, "CPUs", float(run.series.cpus), curves, run.series.jumps)


def _curve(run: Run, name: str, style: str, of: Callable[[Sample], float]) -> Curve:
    return Curve(name, style, [(sample.at, of(sample)) for sample in run.series.samples])


def _quota(run: Run, name: str, style: str) -> Curve:
    whole = run.series.cpus * MILLI
    points = [
        (sample.at, (whole if sample.quota is None else sample.quota) / MILLI)
        for sample in run.series.samples
    ]
    return Curve(name, style, points, held=True)
