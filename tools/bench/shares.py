"""The shares of some functions, including their callees, in the time of some work.

Taken with cProfile, which slows down small Python functions more than numpy and msgspec: shares tell where to
look, other measurements tell how long it takes.
"""

from __future__ import annotations

import cProfile
from collections.abc import Callable, Mapping
from types import CodeType

Function = tuple[str, str]
"""The end of a file's path, and the name of a function in it, with its class where that is needed."""


def shares(work: Callable[[], object], parts: Mapping[str, Function]) -> str:
    """Run some work, and say how much of its time was spent in each part, and outside of all."""
    profile = cProfile.Profile()
    profile.runcall(work)
    entries = profile.getstats()
    total = sum(entry.inlinetime for entry in entries)
    spent = dict.fromkeys(parts, 0.0)
    for entry in entries:
        if not isinstance(entry.code, CodeType):
            continue
        for part, (file, name) in parts.items():
            if name in {entry.code.co_name, entry.code.co_qualname} and entry.code.co_filename.endswith(file):
                spent[part] += entry.totaltime
    rest = total - sum(spent.values())
    return ", ".join(f"{part} {seconds / total:.0%}" for part, seconds in {**spent, "the rest": rest}.items())
