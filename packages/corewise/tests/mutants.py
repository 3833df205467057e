"""Deliberate errors in the code under test: a function whose source has one text replaced by another."""

from __future__ import annotations
import __future__

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch


@dataclass(frozen=True)
class Mutant:
    """An error: in the function ``name`` of a class or module, ``right`` is ``wrong``."""

    owner: Any
    name: str
    right: str
    wrong: str

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Have the error until the block ends."""
        function = inspect.unwrap(vars(self.owner)[self.name])
        source = textwrap.dedent(inspect.getsource(function))
        assert self.right in source, f"{self.name} has no such text"
        code = compile(
            source.replace(self.right, self.wrong), "<mutant>", "exec", __future__.annotations.compiler_flag
        )
        made: dict[str, Any] = {}
        exec(code, function.__globals__, made)  # noqa: S102 - the repository's own source
        with patch.object(self.owner, self.name, made[self.name]):
            yield
