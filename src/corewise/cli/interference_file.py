"""The scheduler's file with the section ``interference``, for commands that need all of it good."""

from __future__ import annotations

from pathlib import Path

from corewise.cli.errors import Failure
from corewise.cli.output import say
from corewise.config.interference import INTERFERENCE, InterferenceConfiguration, parse_interference


def read_interference(file: Path) -> InterferenceConfiguration:
    """Read the section; warnings are told.

    Raises:
        Failure: if the file cannot be read, has errors, or has no such section.
    """
    parsed = parse_interference(text_of(file))
    if parsed.errors:
        raise Failure("\n".join(f"{file}: {problem}" for problem in parsed.errors))
    for problem in parsed.warnings:
        say(f"{file}: {problem}")
    if parsed.value is None:
        raise Failure(f"{file} has no section {INTERFERENCE!r}")
    return parsed.value


def text_of(file: Path) -> str:
    """Return what a file says.

    Raises:
        Failure: if it cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Failure(f"{file} is not UTF-8: byte {error.start} is wrong") from None
