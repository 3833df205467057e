"""The output forms that every listing command shares: ``-o table|wide|json|yaml|csv|name``.

A command describes a row once: columns for people, one flat record for programs. Tables look like kubectl's:
no box lines, numbers to the right, color for severity only, and only on a terminal that wants it
(https://no-color.org). On a terminal they fit its width, and say what they leave out; anywhere else they are
complete. Results go to stdout, messages to stderr.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

import click
import msgspec
import yaml

from corewise.cli.choice import Choice
from corewise.cli.same_cluster import for_same_cluster
from corewise.views.explanation import Explanation
from corewise.views.tables import CellSeverity, Column, Listing, OutputRecord
from corewise.views.text import wrapped

T = TypeVar("T")
_BETWEEN = "  "


class Form(StrEnum):
    """The formats that ``-o`` accepts."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    NAME = "name"


_FORMS = frozenset(map(str, Form))


@dataclass(frozen=True, slots=True)
class Screen:
    """The surface that text is shown on. ``width``: characters that fit into a line, None is any number."""

    width: int | None = None
    color: bool = False

    @classmethod
    def of_stdout(cls) -> Screen:
        """Return stdout: a terminal is as wide as COLUMNS or itself says, a pipe or a file has no width."""
        if not sys.stdout.isatty():
            return cls()
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return cls(shutil.get_terminal_size().columns, color=not plain)

    def wrapped(self, text: str, indent: str = "") -> str:
        """Return text with its lines broken between words to fit; ``indent`` begins the rest of a line."""
        return wrapped(text, self.width, indent)


def option(
    forms: Iterable[str] = tuple(Form), *, help_text: str = "Output form."
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the ``-o`` option for a command; the argument is named ``form``.

    A form that only this command has, such as ``svg``, arrives as its text.
    """
    return click.option(
        "-o",
        "--output",
        "form",
        type=Choice([str(form) for form in forms]),
        default=Form.TABLE.value,
        show_default=True,
        help=help_text,
        callback=lambda _context, _parameter, value: Form(value) if value in _FORMS else value,
    )


def render(listing: Listing[T], form: Form, *, screen: Screen | None = None) -> str:
    """Return the listing in one form, ending in a newline unless it is empty; a table fits the screen."""
    if form is Form.JSON or form is Form.YAML:
        document: dict[str, Any] = {"items": list(listing.records)}
        if listing.totals is not None:
            document["total"] = listing.totals
        return document_text(document, form)
    if form is Form.CSV:
        return _csv(listing.records)
    if form is Form.NAME:
        return "".join(f"{listing.name(row)}\n" for row in listing.rows)
    rows = [*listing.rows, *listing.summary]
    return table(listing.columns, rows, wide=form is Form.WIDE, screen=screen, complete="-o wide")


def table(
    columns: Sequence[Column[T]],
    rows: Sequence[T],
    *,
    wide: bool = False,
    screen: Screen | None = None,
    complete: str = "-o json",
) -> str:
    """Return rows as a table, ending in a newline.

    It fits the screen (None: stdout) unless it is ``wide``. ``complete`` is the option that shows everything.
    """
    screen = screen or Screen.of_stdout()
    columns = [column for column in columns if wide or not column.wide]
    cells = [[column.title, *map(column.text, rows)] for column in columns]
    widths = [max(map(len, texts)) for texts in cells]
    fitted = dict(enumerate(widths))
    if not wide and screen.width is not None:
        if total_width(widths) > screen.width:
            cells = [
                [title, *(shorter(column, text) for text in texts)]
                for column, (title, *texts) in zip(columns, cells, strict=True)
            ]
            widths = [max(map(len, texts)) for texts in cells]
        fitted = fit(columns, widths, screen.width)
    shown = [columns[place] for place in fitted]
    lines = []
    for index, row in enumerate([None, *rows]):
        texts = [shortened_to(cells[place][index], width) for place, width in fitted.items()]
        colored = screen.color and row is not None
        severities = [column.severity(row) if colored and row is not None else None for column in shown]
        lines.append(_line(shown, texts, list(fitted.values()), severities))
    missing = [column.title for place, column in enumerate(columns) if place not in fitted]
    short = (columns[place].title for place, width in fitted.items() if width < widths[place])
    shortened = [title or "the first column" for title in short]
    if rows and (missing or shortened):
        parts = [f"columns left out: {', '.join(missing)}"] if missing else []
        parts += [f"texts cut: {', '.join(shortened)}"] if shortened else []
        needed = f"a terminal {total_width(widths)} columns wide"
        lines += screen.wrapped(f"{'; '.join(parts)} ({complete}, or {needed}, shows all)").splitlines()
    return "".join(f"{line}\n" for line in lines)


def total_width(widths: Collection[int]) -> int:
    """Return the width of a table, including the blanks between columns."""
    return sum(widths) + len(_BETWEEN) * (len(widths) - 1)


def fit(columns: Sequence[Column[T]], widths: Sequence[int], width: int) -> dict[int, int]:
    """Return the places of the columns that fit into a width, and their widths."""
    fitted = {
        place: min(natural, column.shrink or natural)
        for place, (column, natural) in enumerate(zip(columns, widths, strict=True))
    }
    while total_width(fitted.values()) > width and (last := max(columns[place].priority for place in fitted)):
        fitted = {place: least for place, least in fitted.items() if columns[place].priority != last}
    for place, least in fitted.items():
        fitted[place] = min(widths[place], least + max(0, width - total_width(fitted.values())))
    return fitted


def shorter(column: Column[T], text: str) -> str:
    """Return the form of a text for a table that is too wide for its screen."""
    return column.shorter(text) if column.shorter else text


def shortened_to(text: str, width: int) -> str:
    """Return a text, or as much of it as fits."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def document_text(document: Any, form: Form) -> str:
    """Return one document as JSON or YAML."""
    plain = msgspec.to_builtins(document)
    if form is Form.YAML:
        return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)
    return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n"


def tell(text: str, indent: str = "  ") -> None:
    """Print lines of results on stdout, broken between words where a terminal is too narrow for them."""
    click.echo(Screen.of_stdout().wrapped(for_same_cluster(text), indent))


def say(message: str) -> None:
    """Tell the person something about the data (stderr)."""
    click.echo(for_same_cluster(message), err=True)


def show_explanation(explanation: Explanation, form: Form, missing: Iterable[str] = ()) -> None:
    """Print an explanation on stdout, and the names of unreadable objects on stderr."""
    if form is Form.TABLE:
        shown = explanation.with_texts(for_same_cluster)
        click.echo(shown.on(Screen.of_stdout().width), nl=False)
    else:
        click.echo(document_text(explanation.record, form), nl=False)
    for line in missing:
        say(line)


def _csv(records: Sequence[OutputRecord]) -> str:
    flat = [_flatten(record) for record in records]
    fields = list(dict.fromkeys(key for record in flat for key in record))
    out = io.StringIO()
    writer = csv.DictWriter(out, fields, restval="", lineterminator="\n")
    if fields:
        writer.writeheader()
    writer.writerows(flat)
    return out.getvalue()


def _flatten(record: OutputRecord, prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{key}.")
        elif isinstance(value, (list, tuple)):
            flat[prefix + key] = " ".join(map(str, value))
        else:
            flat[prefix + key] = str(value).lower() if isinstance(value, bool) else value
    return flat


def _line(
    columns: Sequence[Column[T]],
    texts: Sequence[str],
    widths: Sequence[int],
    severities: Sequence[CellSeverity | None],
) -> str:
    parts = []
    for index, (column, text, width) in enumerate(zip(columns, texts, widths, strict=True)):
        last_on_the_left = index == len(columns) - 1 and not column.right
        padded = text if last_on_the_left else text.rjust(width) if column.right else text.ljust(width)
        severity = severities[index]
        parts.append(click.style(padded, fg=severity.value) if severity else padded)
    return _BETWEEN.join(parts).rstrip()


class _ManifestDumper(yaml.SafeDumper):
    """Writes a text of several lines, such as an expression, as a block."""

    def represent_scalar(self, tag: str, value: Any, style: str | None = None) -> yaml.ScalarNode:
        several = isinstance(value, str) and "\n" in value
        return super().represent_scalar(tag, value, "|" if several else style)


def print_manifests(*documents: Mapping[str, Any]) -> None:
    """Print objects for ``kubectl apply -f -``."""
    text = yaml.dump_all(documents, Dumper=_ManifestDumper, sort_keys=False, width=1000)
    click.echo(text, nl=False)
