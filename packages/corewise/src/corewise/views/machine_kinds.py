"""Kinds of machines: a CPU model, with Hyper-Threading and turbo where they tell two kinds of it apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from corewise.views.text import short_model

Kind = tuple[str, bool, bool]
"""CPU model, Hyper-Threading, turbo."""
_LONGEST_NAME = 30


def kind_names(kinds: Iterable[Kind]) -> Mapping[Kind, str]:
    """Return a short name for each kind of machine."""
    short = {kind: short_model(kind[0])[:_LONGEST_NAME] for kind in kinds}
    alike = Counter(short.values())
    told = {
        kind: f"{name}{'' if kind[1] else ', HT off'}{'' if kind[2] else ', turbo off'}"
        for kind, name in short.items()
    }
    return {kind: told[kind] if alike[name] > 1 else name for kind, name in short.items()}
