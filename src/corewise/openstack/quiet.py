"""What OpenStack's libraries say on their own.

They warn of each other's deprecations, which nobody here can mend. What they log would go to stderr where a
program has set up no logging: a command's error would stand there twice, once in their words.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


def quietly() -> warnings.catch_warnings[None]:
    """Return a block within which no warning is shown; for one thread at a time, as Python has it."""
    return warnings.catch_warnings(action="ignore")


@contextmanager
def logging_as_it_was() -> Iterator[None]:
    """A block that leaves the root logger's handlers as they were: oslo.log adds one, to stderr."""
    root = logging.getLogger()
    before = list(root.handlers)
    try:
        yield
    finally:
        for added in [handler for handler in root.handlers if handler not in before]:
            root.removeHandler(added)


def silent_without_logging(loggers: Iterable[str]) -> None:
    """Have these loggers say nothing, unless a program has set up logging; then they are part of it."""
    for name in loggers:
        logging.getLogger(name).addHandler(logging.NullHandler())
