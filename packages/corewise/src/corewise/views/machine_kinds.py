"""Kinds of machines: a CPU model, with Hyper-Threading and turbo where they tell two kinds of it apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from corewise.views.text import short_model

Kind = tuple[str, bool, bool]
"""CPU model, Hyper-Threading, turbo."""
_LONGEST_NAME = 30


def kind_names(kinds: Iterable[Kind]) -> Mapping[Kind, str]:
    """Return a name for each kind of machine, each another one, and short where that is possible."""
    short = {kind: short_model(kind[0])[:_LONGEST_NAME] for kind in kinds}
    shared = Counter(name for name, _ in {(name, kind[0]) for kind, name in short.items()})
    names = {kind: name if shared[name] == 1 else kind[0] for kind, name in short.items()}
    alike = Counter(names.values())
    return {kind: _told(name, kind) if alike[name] > 1 else name for kind, name in names.items()}


def _told(name: str, kind: Kind) -> str:
    """Return a name with the settings that are off."""
    return f"{name}{'' if kind[1] else ', HT off'}{'' if kind[2] else ', turbo off'}"
