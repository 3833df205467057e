"""Which normalization ratio a node's quotas are divided by, read from its annotation. Pure.

Absent means not normalized: 1.00. What is there and cannot be read, or is outside 1.00..5.00, changes
nothing: the last good ratio stays in force, 1.00 if there was none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from corewise.config.configuration import LARGEST_NORMALIZATION_RATIO
from corewise.quantities import ONE, Ratio, RatioError
from corewise.vocabulary.names import NORMALIZATION_RATIO


@dataclass(frozen=True, slots=True)
class RatioReading:
    """The ratio in force; ``problem`` says why it is not the one annotated."""

    ratio: Ratio
    problem: str = ""


NOT_NORMALIZED = RatioReading(ONE)


def read_ratio(annotations: Mapping[str, str], before: RatioReading) -> RatioReading:
    """Return the reading that follows the one before."""
    text = annotations.get(NORMALIZATION_RATIO)
    if text is None:
        return NOT_NORMALIZED
    try:
        ratio = Ratio.parse(text)
    except RatioError as error:
        problem = str(error)
    else:
        if ONE <= ratio <= LARGEST_NORMALIZATION_RATIO:
            return RatioReading(ratio)
        problem = f"{ratio} is outside {ONE}..{LARGEST_NORMALIZATION_RATIO}"
    return RatioReading(before.ratio, f"annotation {NORMALIZATION_RATIO}: {problem}; {before.ratio} stays")
