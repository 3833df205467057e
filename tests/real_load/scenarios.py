"""What online pods are asked to do in a run: curves of load, and when they jump.

Every scenario begins with ``WARM_UP`` seconds in which a loop comes to rest, and which no figure counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from real_load.crew import Curve

WARM_UP = 10


@dataclass(frozen=True, slots=True)
class Scenario:
    """A curve: seconds and load (0 to 1 of the machine). ``jumps`` is where figures begin a phase."""

    name: str
    title: str
    curve: Curve
    jumps: tuple[float, ...]

    @property
    def seconds(self) -> int:
        return int(self.curve[-1][0])

    def load_at(self, seconds: float) -> float:
        """Return the load at a time; at a jump that before it."""
        before = self.curve[0]
        for point in self.curve:
            if point[0] >= seconds:
                span = point[0] - before[0]
                return before[1] + (point[1] - before[1]) * ((seconds - before[0]) / span if span else 0.0)
            before = point
        return before[1]

    def mean(self, start: float, end: float) -> float:
        """Return the mean load of a time in which it jumps nowhere."""
        tiny = (end - start) * 1e-6
        return (self.load_at(start + tiny) + self.load_at(end)) / 2

    def slower(self, times: int) -> Scenario:
        """Return the same load with everything that many times as long."""
        curve = tuple((at * times, load) for at, load in self.curve)
        return Scenario(self.name, self.title, curve, tuple(jump * times for jump in self.jumps))


STEP = Scenario(
    "step",
    "a step from 20 % to 70 %, and back",
    ((0, 0.2), (15, 0.2), (15, 0.7), (30, 0.7), (30, 0.2), (45, 0.2)),
    (15, 30),
)
RAMP = Scenario(
    "ramp",
    "a ramp from 10 % to 80 % in 30 s",
    ((0, 0.1), (12, 0.1), (42, 0.8), (50, 0.8)),
    (12,),
)
SQUARE = Scenario(
    "square",
    "a square wave between 20 % and 70 %, 20 s a period",
    (
        *((0, 0.2), (12, 0.2), (12, 0.7), (22, 0.7), (22, 0.2), (32, 0.2)),
        *((32, 0.7), (42, 0.7), (42, 0.2), (52, 0.2)),
    ),
    (12, 22, 32, 42),
)
SCENARIOS = (STEP, RAMP, SQUARE)
