"""Draws curves over time or load as SVG: panels below each other, each with its axes and a legend."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from corewise.cli import svg
from corewise.cli.svg import Box

WIDTH = 880
_PLOT = 190
_LEFT, _RIGHT, _ABOVE, _BELOW = 56, 16, 46, 34
_SIZE = 11
_LETTER = 6.0
"""About how wide a letter of the legend is."""

_TICKS = 5
_NICE = (1, 2, 5, 10)
_STYLES = (
    ".title{fill:#111827;font-weight:600}"
    ".word{fill:#4b5563}"
    ".tick{fill:#6b7280;text-anchor:end}"
    ".second{fill:#6b7280;text-anchor:middle}"
    ".frame{fill:none;stroke:#9ca3af}"
    ".grid{stroke:#e5e7eb}"
    ".jump{stroke:#9ca3af;stroke-dasharray:2 3}"
    "polyline{fill:none;stroke-width:1.8;stroke-linejoin:round}"
    ".online{stroke:#2563eb}"
    ".offline{stroke:#16a34a}"
    ".quota{stroke:#dc2626}"
    ".target{stroke:#f59e0b;stroke-dasharray:5 3}"
    ".idle{stroke:#9ca3af;stroke-dasharray:5 3}"
    ".other{stroke:#7c3aed}"
    ".another{stroke:#db2777}"
)


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve of seconds and amounts; with ``held`` an amount stays until the next one.

    ``bars``: where each is, and the lowest and highest amount that it covers.
    """

    name: str
    style: str
    points: Sequence[tuple[float, float]]
    held: bool = False
    bars: Sequence[tuple[float, float, float]] = ()

    @property
    def drawn(self) -> Iterator[tuple[float, float]]:
        if not self.held:
            yield from self.points
            return
        for (at, amount), (then, _) in itertools.pairwise(self.points):
            yield at, amount
            yield then, amount
        yield self.points[-1]


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves over one stretch of time, or of what ``across`` says. ``unit`` is that of the amounts, ``top``
    the largest shown; the scale is logarithmic where ``bottom``, the smallest shown, is above 0.
    """

    title: str
    unit: str
    top: float
    curves: Sequence[Curve]
    jumps: Sequence[float] = ()
    across: str = "seconds"
    bottom: float = 0.0

    @property
    def span(self) -> tuple[float, float]:
        times = [at for curve in self.curves for at, _ in curve.points]
        return min(times), max(times)


def chart(panels: Sequence[Panel], *, label: str, made_by: str) -> str:
    """Return an SVG file; ``made_by`` is the command which made it."""
    boxes = [_panel(panel) for panel in panels]
    words = svg.text(_LEFT, 14, f"made by: {made_by}", size=_SIZE, style="word")
    inside = svg.column([*boxes, Box(WIDTH, 22, words)], gap=2)
    return svg.document(inside, label=label, styles=_STYLES)


def _panel(panel: Panel) -> Box:
    start, end = panel.span
    scale = _Scale(start, end, panel.top, panel.bottom)
    parts = [
        svg.text(_LEFT, 16, panel.title, size=13, style="title"),
        svg.text(_LEFT - 6, _ABOVE - 8, panel.unit, size=_SIZE, style="tick"),
        svg.text(WIDTH - _RIGHT, _ABOVE + _PLOT + 28, panel.across, size=_SIZE, style="tick"),
        _legend(panel.curves),
        *_amounts(scale),
        *_seconds(scale),
        *(_line(scale.x(at), _ABOVE, scale.x(at), _ABOVE + _PLOT, "jump") for at in panel.jumps),
        *(_polyline(curve, scale) for curve in panel.curves),
        *(
            _line(scale.x(at), scale.y(low), scale.x(at), scale.y(high), curve.style)
            for curve in panel.curves
            for at, low, high in curve.bars
        ),
        f'<rect x="{_LEFT}" y="{_ABOVE}" width="{scale.width}" height="{_PLOT}" class="frame"/>',
    ]
    return Box(WIDTH, _ABOVE + _PLOT + _BELOW, "".join(parts))


@dataclass(frozen=True, slots=True)
class _Scale:
    """The scale of seconds and amounts in the drawing."""

    start: float
    end: float
    top: float
    bottom: float

    @property
    def width(self) -> int:
        return WIDTH - _LEFT - _RIGHT

    def x(self, at: float) -> float:
        return _LEFT + self.width * (at - self.start) / (self.end - self.start)

    def y(self, amount: float) -> float:
        shown = min(amount, self.top)
        if not self.bottom:
            return _ABOVE + _PLOT * (1 - shown / self.top)
        return _ABOVE + _PLOT * math.log(self.top / max(shown, self.bottom)) / math.log(
            self.top / self.bottom
        )


def _amounts(scale: _Scale) -> Iterator[str]:
    for amount in _round_amounts(scale):
        y = scale.y(amount)
        yield _line(_LEFT, y, _LEFT + scale.width, y, "grid")
        yield svg.text(_LEFT - 6, y + 4, f"{amount:g}", size=_SIZE, style="tick")


def _round_amounts(scale: _Scale) -> Iterator[float]:
    """Yield the amounts that the axis names: on a logarithmic scale 1, 2 and 5 of each power of ten."""
    if scale.bottom:
        powers = range(math.floor(math.log10(scale.bottom)), math.ceil(math.log10(scale.top)) + 1)
        amounts = (digit * 10.0**power for power in powers for digit in _NICE[:-1])
        yield from (each for each in amounts if scale.bottom * 0.999 < each < scale.top * 1.001)
        return
    step = _nice(scale.top / _TICKS)
    yield from (number * step for number in range(int(scale.top / step + 1e-9) + 1))


def _seconds(scale: _Scale) -> Iterator[str]:
    step = _nice((scale.end - scale.start) / 10)
    first = int(-(-scale.start // step))
    for number in range(first, int(scale.end / step + 1e-9) + 1):
        x = scale.x(number * step)
        yield _line(x, _ABOVE, x, _ABOVE + _PLOT, "grid")
        yield svg.text(x, _ABOVE + _PLOT + 15, f"{number * step:g}", size=_SIZE, style="second")


def _legend(curves: Sequence[Curve]) -> str:
    parts, x = [], _LEFT
    for curve in curves:
        parts.append(f'<polyline points="{x},{_ABOVE - 12} {x + 22},{_ABOVE - 12}" class="{curve.style}"/>')
        parts.append(svg.text(x + 27, _ABOVE - 8, curve.name, size=_SIZE, style="word"))
        x += 44 + round(_LETTER * len(curve.name))
    return "".join(parts)


def _polyline(curve: Curve, scale: _Scale) -> str:
    points = " ".join(f"{scale.x(at):.1f},{scale.y(amount):.1f}" for at, amount in curve.drawn)
    return f'<polyline points="{points}" class="{curve.style}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>'


def _nice(step: float) -> float:
    """Return the next round number."""
    power = 10.0 ** (len(f"{int(step)}") - 1) if step >= 1 else 1.0
    while power > step:
        power /= 10
    return next(power * each for each in _NICE if power * each >= step - 1e-9)
