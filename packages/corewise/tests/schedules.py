"""Every schedule within a bound: all sequences of choices that a run can be given, each tried once.

A run is deterministic but for its choices: which event comes next, which fault strikes. It is begun afresh
for each schedule, follows a prefix of choices, and from there takes the first choice each time; the others
are tried later. A run that comes to a state where another has been ends there: it has the same future. A
state is what a run passes to :meth:`Schedule.choose`, and must say all that its future depends on, but for
the faults that are left: those who have more left can do whatever those with fewer can.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field


class Known(BaseException):
    """Another schedule has come to the same state, and had as many faults left."""


@dataclass
class Schedule:
    """The choices of one run: ``prefix`` first, then the first of each. One without a name is no event.

    ``states``: where runs have been, with the most faults that one had left there.
    """

    prefix: tuple[int, ...]
    states: dict[Hashable, int]
    more: list[tuple[int, ...]]
    taken: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    @property
    def repeats(self) -> bool:
        """Whether the run is still where another has been."""
        return len(self.taken) < len(self.prefix)

    def choose(self, options: Sequence[str], state: Callable[[], Hashable], left: int = 0) -> int:
        """Return the place of the option to take; the state is asked for where no run has been yet.

        Raises:
            Known: if the run may end, because another goes on from the same state.
        """
        depth = len(self.taken)
        choice = 0
        if depth < len(self.prefix):
            choice = self.prefix[depth]
        else:
            self.arrive_at(state(), left)
            self.more += [(*self.taken, other) for other in range(len(options) - 1, 0, -1)]
        self.taken.append(choice)
        self.names += filter(None, [options[choice]])
        return choice

    def arrive_at(self, state: Hashable, left: int = 0) -> None:
        """Note a state; call it for the last one too, where there is nothing to choose.

        Raises:
            Known: if the run may end, because another has been there.
        """
        key = hash(state)
        if self.states.get(key, -1) >= left:
            raise Known
        self.states[key] = left


@dataclass(frozen=True)
class Explored:
    """How much was tried; ``failure`` is the shortest history that broke a promise, with the error."""

    states: int
    schedules: int
    failure: tuple[tuple[str, ...], AssertionError] | None = None


def explore(run: Callable[[Schedule], None], *, stop_at_failure: bool = True) -> Explored:
    """Run every schedule; without ``stop_at_failure`` go on for the shortest one that fails."""
    states: dict[Hashable, int] = {}
    more: list[tuple[int, ...]] = [()]
    schedules, failure = 0, None
    while more:
        schedule = Schedule(more.pop(), states, more)
        schedules += 1
        try:
            run(schedule)
        except Known:
            continue
        except AssertionError as error:
            if failure is None or len(schedule.names) < len(failure[0]):
                failure = tuple(schedule.names), error
            if stop_at_failure:
                break
    return Explored(len(states), schedules, failure)
