"""The report as Markdown: the machines, and what the data of at least two CPU models come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from corewise.views.text import count
from experiments.accuracy.errors import Comparison, by_model, spread
from experiments.accuracy.programs import PROGRAMS
from experiments.accuracy.records import MeasuredRun
from experiments.markdown import table

FEWEST_MODELS = 2
FEWEST_PROGRAMS = 20
_COMMAND = "python -m experiments.accuracy run experiments/accuracy/data/runs.jsonl"
GOALS: Mapping[str, tuple[float, float]] = {"median": (0.5, 2.0), "p95": (0.95, 6.0)}
"""A quantile of the errors of all programs, and the largest percentage that is good enough."""

_NONE = "No data."


def machines(runs: Sequence[MeasuredRun]) -> str:
    """Return the table of the CPU models in the data."""
    if not runs:
        return _NONE
    rows = [
        (
            model,
            str(len(of)),
            _range([run.machine.cpus for run in of]),
            _range([len(run.programs) for run in of]),
            ", ".join(sorted({run.python for run in of})),
            "yes" if any(run.machine.hypervisor for run in of) else "no",
        )
        for model, of in by_model(runs).items()
    ]
    return table(("CPU model", "runs", "CPUs", "programs", "Python", "virtual machine"), rows)


def accuracy(runs: Sequence[MeasuredRun]) -> str:
    """Return the accuracy, or what the data lack for a figure."""
    models = by_model(runs)
    if len(models) < FEWEST_MODELS:
        had = f"those of {next(iter(models))} alone" if models else "none"
        return (
            f"No figure: it takes runs on at least {FEWEST_MODELS} CPU models, and the data have {had}. "
            f"To add another, run on its machine:\n\n    {_COMMAND}"
        )
    comparison = Comparison(runs)
    compared = comparison.programs
    if len(compared) < FEWEST_PROGRAMS:
        return (
            f"No figure: it takes {FEWEST_PROGRAMS} programs that two CPU models have in the same version, "
            f"and the data have {len(compared)}. Install the same requirements on both, "
            "and measure again."
        )
    named, pairs = "; ".join(models), count(len(comparison.pairs), "pair")
    parts = [
        f"{len(compared)} programs, {pairs} of {len(models)} CPU models: {named}.",
        _summary(comparison),
        _weights(comparison),
        _by_program(comparison, compared),
    ]
    return "\n\n".join(parts)


def _summary(comparison: Comparison) -> str:
    rows = []
    for name, (quantile, goal) in GOALS.items():
        figure = comparison.of_all(quantile)
        # Reached is what the whole interval reaches.
        reached = "yes" if figure.high <= goal else "no" if figure.low > goal else "not certain"
        rows.append((name, str(figure), f"{goal:.0f} %", reached))
    return table(("error of all programs", "measured", "goal", "reached"), rows)


def _weights(comparison: Comparison) -> str:
    best = comparison.best_weights()
    mix = [f"{comparison.of_all(quantile).value:.1f} %" for quantile, _ in GOALS.values()]
    weights = ", ".join(f"{name} {weight:.2f}" for name, weight in best.weights.items() if weight)
    rows = [
        ("equal (the mix)", *mix),
        (f"best for these programs: {weights}", f"{best.median:.1f} %", f"{best.p95:.1f} %"),
        (
            "best for all but one, of that one",
            f"{best.left_out_median:.1f} %",
            f"{best.left_out_p95:.1f} %",
        ),
        (
            "none: for each pair the ratio that suits it best",
            *(f"{comparison.of_best_ratios(quantile):.1f} %" for quantile, _ in GOALS.values()),
        ),
    ]
    return table(("weights of the kernels", "median", "p95"), rows)


def _by_program(comparison: Comparison, compared: Sequence[str]) -> str:
    if len(comparison.pairs) == 1:
        rows = [(name, str(comparison.of_program(name, 0.5))) for name in compared]
        return table(("program", "error"), rows)
    several = [
        (
            name,
            str(comparison.compared(name)),
            *(str(comparison.of_program(name, quantile)) for quantile, _ in GOALS.values()),
        )
        for name in compared
    ]
    return table(("program", "pairs", "median error", "p95"), several)


def programs(runs: Sequence[MeasuredRun]) -> str:
    """Return the table of the programs of the last run: version, and how far its repetitions differ."""
    if not runs:
        return _NONE
    last = runs[-1]
    rows = [
        (
            name,
            PROGRAMS[name].kind if name in PROGRAMS else "",
            series.version,
            f"{spread(series.rates):.1f} %",
        )
        for name, series in last.programs.items()
    ]
    rows += [(name, "kernel", "", f"{spread(rates):.1f} %") for name, rates in last.kernels.items()]
    rows += [(name, "not measured", why, "") for name, why in last.skipped.items()]
    return table(("program", "kind", "version", "spread"), rows)


def _range(counts: Sequence[int]) -> str:
    return str(min(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
