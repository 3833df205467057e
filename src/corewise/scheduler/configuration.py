"""The file that ``--config`` names: how the scheduler scores, how much it remembers, and interference.

YAML or JSON::

    scoring: MostAllocated      # or LeastAllocated, which is the default
    rememberedDecisions: 100    # of the latest; 0 to 1000
    interference: {...}         # see docs/interference.md; without it, nothing is asked of Prometheus

A key that is unknown is an error, so that a slip of the pen is not the default. Every error is told with its
line, column and field.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from corewise.config.decoding import Decoder, Parsed, Problem
from corewise.config.interference import INTERFERENCE, InterferenceConfiguration, parse_interference
from corewise.config.interference.strict import strict_fields
from corewise.config.yaml_text import read_yaml
from corewise.engine import Allocation

_SCORING, _REMEMBERED = "scoring", "rememberedDecisions"
_MOST_REMEMBERED = 1000


class _Scoring(StrEnum):
    LEAST = Allocation.LEAST.value
    MOST = Allocation.MOST.value


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    """What the file says.

    A decision takes about 80 bytes a node while it is remembered, 170 with interference.
    """

    scoring: Allocation = Allocation.LEAST
    remembered_decisions: int = 50
    interference: InterferenceConfiguration | None = None


DEFAULTS = SchedulerConfiguration()


class SchedulerConfigurationError(ValueError):
    """The file's text is no configuration; the message says where and why, one line for each error."""


def parse_configuration(text: str) -> SchedulerConfiguration:
    """Read the file's text; an empty one is the defaults.

    Raises:
        SchedulerConfigurationError: if it cannot be read or has a bad value.
    """
    parsed = read_configuration(text)
    if parsed.value is None:
        raise SchedulerConfigurationError("\n".join(str(each) for each in parsed.errors))
    return parsed.value


def read_configuration(text: str) -> Parsed[SchedulerConfiguration]:
    """Read the file's text, with every problem told."""
    decoder = Decoder(read_yaml(text))
    fields = strict_fields(decoder, decoder.root, (_SCORING, _REMEMBERED, INTERFERENCE))
    scoring = decoder.choice(fields[_SCORING], _Scoring)
    remembered = decoder.whole(fields[_REMEMBERED], 0, _MOST_REMEMBERED)
    own = decoder.finish(None)
    interference = parse_interference(text)
    problems = _in_order(own.problems, interference.problems)
    if own.errors or interference.errors:
        return Parsed(None, problems)
    configuration = SchedulerConfiguration(
        scoring=Allocation(scoring.value) if scoring else DEFAULTS.scoring,
        remembered_decisions=DEFAULTS.remembered_decisions if remembered is None else remembered,
        interference=interference.value,
    )
    return Parsed(configuration, problems)


def _in_order(*several: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """Return the problems in the order of the text, each once."""
    found = dict.fromkeys(problem for problems in several for problem in problems)
    return tuple(sorted(found, key=lambda each: (each.line, each.column)))
