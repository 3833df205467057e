"""Short names of CPU models and of kinds of machines, the same in the terminal, on the page and in reports.

A kind is a CPU model, with Hyper-Threading and turbo where they tell two kinds of one model apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

Kind = tuple[str, bool, bool]
"""CPU model, Hyper-Threading, turbo."""
_LONGEST_NAME = 30
_CLOCK = re.compile(r"@.*")
_NOISE = re.compile(
    r"\((?:R|TM)\)|\b(?:Intel|AMD|ARM|CPU|Processor|Platinum|Gold|Silver|Bronze)\b|\b\d+-Core\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=1024)
def short_model(model: str) -> str:
    """Return a CPU model without vendor, tier, cores and clock: "Xeon 8269CY", "EPYC 9654".

    A model without a number keeps its clock, the only mark of some virtual machines: "Xeon @ 2.20GHz".
    """
    name = _without_noise(_CLOCK.sub("", model))
    if not any(map(str.isdigit, name)):
        name = _without_noise(model)
    return name or model


def _without_noise(text: str) -> str:
    return " ".join(_NOISE.sub(" ", text).split())


def whole_names(kinds: Iterable[Kind]) -> Mapping[Kind, str]:
    """Return a name with the whole CPU model for each kind of machine."""
    return _named(kinds, lambda model: model)


def kind_names(kinds: Iterable[Kind]) -> Mapping[Kind, str]:
    """Return a short name for each kind of machine; two models that would be named alike stay whole."""
    every = set(kinds)
    short = {model: short_model(model)[:_LONGEST_NAME] for model, _, _ in every}
    alike = Counter(short.values())
    return _named(every, lambda model: short[model] if alike[short[model]] == 1 else model)


def _named(kinds: Iterable[Kind], name_of: Callable[[str], str]) -> Mapping[Kind, str]:
    """Return the models' names, with what differs between kinds of one model."""
    every = set(kinds)
    settings = Counter(model for model, _, _ in every)
    names = {}
    for kind in every:
        model, hyper_threading, turbo = kind
        told = f"{'' if hyper_threading else ', HT off'}{'' if turbo else ', turbo off'}"
        names[kind] = name_of(model) + (told if settings[model] > 1 else "")
    return names
