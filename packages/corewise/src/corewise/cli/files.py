"""Files that commands read and write. One that cannot be used ends the command; the message names it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from corewise.cli.errors import Failure
from corewise.vocabulary.errors import UNREADABLE, unreadable_text

T = TypeVar("T")
# Whoever reads a file says that it cannot be read; click would call that a wrong call.
FILE = click.Path(path_type=Path, dir_okay=False, readable=False)
TEXT_FILE = click.Path(dir_okay=False, readable=False)
"""A file whose name arrives as it is written: "" where there is none, - for stdin."""
FOLDER = click.Path(path_type=Path, file_okay=False, readable=False)
EXISTING_FOLDER = click.Path(path_type=Path, file_okay=False, exists=True)


def bytes_of(file: Path | str) -> bytes:
    """Return the content of a file; ``-`` is stdin.

    Raises:
        Failure: if it cannot be read.
    """
    try:
        with click.open_file(str(file), "rb") as stream:
            content: bytes = stream.read()
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}") from None
    return content


def text_of(file: Path | str) -> str:
    """Return the text of a file, which is UTF-8; ``-`` is stdin.

    Raises:
        Failure: if it cannot be read.
    """
    try:
        return bytes_of(file).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Failure(f"{file} is not UTF-8: byte {error.start} is wrong") from None


def decoded(file: Path | str, decode: Callable[[bytes], T], expected: str, hint: str) -> T:
    """Decode a file with ``decode``; ``-`` is stdin. ``expected``: "a list of nodes".

    Raises:
        Failure: if it cannot be read, or ``decode`` raises one of UNREADABLE.
    """
    try:
        return decode(bytes_of(file))
    except UNREADABLE as error:
        raise Failure(f"{file} is not {expected}: {unreadable_text(error)}", hint=hint) from None


def write_private(file: Path, content: bytes) -> None:
    """Write a file that only this user may read, in one step, so that a reader never sees half of it.

    Raises:
        Failure: if it cannot be written.
    """
    made = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            stream.write(content)
        made.replace(file)
    except OSError as error:
        made.unlink(missing_ok=True)
        raise Failure(f"{file} cannot be written: {error.strerror}") from error


def make_folder(folder: Path) -> None:
    """Make a directory that only this user may enter, unless there is one.

    Raises:
        Failure: if it cannot be made, or no file can be made in it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"{folder} cannot be made: {error.strerror}") from error
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise Failure(f"{folder} cannot be written: {error.strerror}") from error
