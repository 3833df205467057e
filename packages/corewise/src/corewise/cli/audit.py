"""``corewise audit``: the journal of everything that was written to this node's cgroups."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from corewise.agent.options import STATE_DIR
from corewise.cli import output
from corewise.cli.choice import Choice
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.files import EXISTING_FOLDER, FOLDER
from corewise.cli.options import duration, examples
from corewise.cli.output import Form, say
from corewise.kernel.writing.entries import (
    Damaged,
    Entry,
    Failed,
    Held,
    HeldGroup,
    HeldSetting,
    Kept,
    Opened,
    Released,
    Wrote,
)
from corewise.kernel.writing.journal import damage_text, read_history
from corewise.views.tables import CellSeverity, Column, Listing
from corewise.vocabulary.reasons import Reason

_FORMS = (Form.TABLE, Form.WIDE, Form.JSON, Form.YAML, Form.CSV)
_KINDS: Mapping[str, tuple[type, ...]] = {
    "wrote": (Wrote,),
    "failed": (Failed,),
    "released": (Released,),
    "opened": (Opened,),
    "held": (Held, HeldSetting, HeldGroup),
}
_SHOWN = ("wrote", "failed")


def _when(entry: Entry) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(entry.time))


def _field(name: str) -> Any:
    return lambda entry: str(getattr(entry, name, "")) or "-"


def _why(entry: Entry) -> str:
    match entry:
        case Failed(error=error):
            return error
        case Opened(boot=boot):
            return f"an agent began to write; boot {boot}"
        case Released():
            return "back at its base, or gone"
        case Held() | HeldSetting() | HeldGroup():
            return _way_back(entry)
        case Wrote(why=why):
            return why


def _way_back(held: Kept) -> str:
    match held:
        case Held(base=base):
            return f"will be put back: {base.quota or 'max'} {base.period}"
        case HeldSetting(base=base):
            return f"will be put back: {base!r}"
        case HeldGroup():
            return "will be removed"


def _severity(entry: Entry) -> CellSeverity | None:
    return CellSeverity.ERROR if isinstance(entry, Failed) else None


_COLUMNS: tuple[Column[Entry], ...] = (
    Column("TIME", _when),
    Column("CGROUP", lambda entry: str(getattr(entry, "cgroup", "-")).rpartition("/")[2], shrink=20),
    Column("FILE", _field("file"), priority=1),
    Column("OLD", _field("old"), right=True, priority=2),
    Column("NEW", _field("new"), right=True),
    Column("REASON", _field("reason")),
    Column("PATH", _field("cgroup"), wide=True),
    Column("WHY", _why, severity=_severity, priority=3, shrink=24),
)


@click.command(epilog=examples("corewise audit --since 10m", "corewise audit --kind failed -o json"))
@click.option(
    "--root",
    envvar="COREWISE_ROOT",
    type=EXISTING_FOLDER,
    default="/",
    show_default=True,
    help="Where the host's /var is found, or $COREWISE_ROOT.",
)
@click.option(
    "--state-dir",
    type=FOLDER,
    help=f"Directory of the journal.  [default: {STATE_DIR} below the root]",
)
@duration("--since", help="Only the last 10m, 1h, …")
@click.option("--cgroup", default="", metavar="TEXT", help="Only cgroups with it in their path: a pod's UID.")
@click.option(
    "--reason",
    type=Choice([reason.value for reason in Reason], listed_at="docs/reference/index.md"),
    metavar="REASON",
    help="Only writes for this reason, such as QuotaRestored.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=Choice(list(_KINDS)),
    default=_SHOWN,
    show_default=True,
    help="Kinds of entries to show. Repeatable.",
)
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the last N of them.")
@output.option(_FORMS)
def command(
    root: Path,
    state_dir: Path | None,
    since: float | None,
    cgroup: str,
    reason: str | None,
    kinds: tuple[str, ...],
    last: int | None,
    form: Form,
) -> None:
    """Show what was written to this node's cgroups: when, where, from what to what, and why.

    It reads the journal that the agent keeps, whether the agent runs or not, and needs no cluster.
    """
    start = 0.0 if since is None else time.time() - since
    wanted = tuple(each for kind in kinds for each in _KINDS[kind])
    directory = state_dir or root / STATE_DIR
    if not directory.is_dir():
        hint = "has an agent run here? See --root and --state-dir"
        raise Failure(f"{directory}: there is no journal", hint=hint, exit_code=ExitCode.NOT_FOUND)
    lines = list(read_history(directory))
    damaged = [line for line in lines if isinstance(line, Damaged)]
    rows = [
        entry
        for entry in lines
        if not isinstance(entry, Damaged)
        and isinstance(entry, wanted)
        and entry.time >= start
        and cgroup in getattr(entry, "cgroup", "")
        and reason in {None, getattr(entry, "reason", "")}
    ][-(last or 0) :]
    records = [msgspec.to_builtins(row) for row in rows]
    listing = Listing(_COLUMNS, rows, records, name=_field("cgroup"))
    click.echo(output.render(listing, form), nl=False)
    if damaged:
        say(damage_text(damaged))
