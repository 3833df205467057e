"""What the subcommands of ``corewise compute`` are told about hosts and guests, and how it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from corewise.cli.compute_failures import failures
from corewise.cli.output import say
from corewise.compute.errors import FileUnusable
from corewise.compute.machine_file import parse_machine
from corewise.config.decoding import Parsed
from corewise.kernel.machine import read_machine
from corewise.topology import Host
from corewise.tracking.options import Checked, Compat, HostOptions, HostSettings, OptionProblem

if TYPE_CHECKING:
    from corewise.openstack.nova_conf import NovaConf

T = TypeVar("T")
Decorated = Callable[..., Any]
Decorator = Callable[[Decorated], Decorated]

FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
FOLDER = click.Path(path_type=Path, file_okay=False)
_MOST_TOLD = 8

COMPAT = click.option(
    "--compat",
    type=click.Choice([each.value for each in Compat]),
    default=Compat.SPEC.value,
    show_default=True,
    callback=lambda _context, _parameter, value: Compat(value),
    help="Follow the specification, or what Nova finally shipped where the two differ.",
)
TOPOLOGY = click.option(
    "--topology",
    type=FILE,
    metavar="FILE",
    help="The host, as corewise topology -o json prints it; - is stdin.",
)
ROOT = click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The host, read from DIR/proc and DIR/sys.  [default: this machine]",
)
CONFIG = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="nova.conf of the host; may be repeated, later ones count.  [default: nothing is configured]",
)
FLAVOR = click.option(
    "--flavor",
    type=FILE,
    required=True,
    metavar="FILE",
    help='The flavor: {"name","vcpus","ram","disk","extra_specs":{}}.',
)
IMAGE = click.option(
    "--image", type=FILE, metavar="FILE", help='The image: {"properties":{}}.  [default: asks for nothing]'
)


def several(*options: Decorator) -> Decorator:
    """Return one decorator for several options, the first of them first in the help."""
    return lambda command: reduce(lambda inner, option: option(inner), reversed(options), command)


host_options = several(TOPOLOGY, ROOT, CONFIG, COMPAT)
"""A host: ``topology``, ``root``, ``config`` and ``compat``."""


def text_of(file: Path) -> str:
    """Return the text of a file; ``-`` is stdin.

    Raises:
        FileUnusable: if there is none that can be read.
    """
    try:
        with click.open_file(str(file), "rb") as stream:
            text: bytes = stream.read()
        return text.decode("utf-8-sig")
    except OSError as error:
        raise FileUnusable(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise FileUnusable(f"{file} is not UTF-8: byte {error.start} is wrong") from None


def parsed(file: Path, parse: Callable[[str], Parsed[T]]) -> T:
    """Return what a file means; its warnings are told on stderr.

    Raises:
        FileUnusable: if it has errors, naming each with line and column.
    """
    found = parse(text_of(file))
    for warning in found.warnings:
        say(f"warning: {file}: {warning}")
    if found.value is None:
        told = [str(error) for error in found.errors[:_MOST_TOLD]]
        more = [f"and {len(found.errors) - _MOST_TOLD} more"] if len(found.errors) > _MOST_TOLD else []
        raise FileUnusable("\n  ".join([f"{file} cannot be used", *told, *more]))
    return found.value


def machine(topology: Path | None, root: Path | None) -> Host:
    """Return the host that the options name.

    Raises:
        FileUnusable: if there is none.
    """
    if topology is not None and root is not None:
        raise click.UsageError("--topology and --root exclude each other: both say what the host is")
    if topology is not None:
        return parsed(topology, parse_machine)
    where = root or Path("/")
    reading = read_machine(where)
    for problem in reading.problems:
        say(f"left out: {problem}")
    if not reading.host.topology.threads:
        hint = f"is it the root of a machine? There must be {where / 'sys/devices/system/cpu'}"
        raise FileUnusable(f"no CPU is online below {where}", hint=hint)
    return reading.host


def nova_conf(config: Sequence[Path]) -> NovaConf | None:
    """Return what the files of configuration say; None without any."""
    if not config:
        return None
    from corewise.openstack.nova_conf import read_nova_conf  # noqa: PLC0415 - it needs oslo.config

    return read_nova_conf(config)


def options_of(conf: NovaConf | None) -> HostOptions:
    """Return the options that say what the host's CPUs are for."""
    return HostOptions() if conf is None else HostOptions.of(conf.values)


def usable(checked: Checked) -> HostSettings:
    """Return settings without errors; warnings are told on stderr.

    Raises:
        Failure: with every error, a line each.
    """
    for warning in checked.warnings:
        say(f"warning: {warning.reason}: {warning}")
    if checked.settings is None:
        raise failures((error.reason, str(error)) for error in checked.errors)
    return checked.settings


def warning_record(warning: OptionProblem) -> dict[str, str]:
    """Return a warning for programs."""
    return {
        "reason": warning.reason,
        "option": warning.option,
        "value": warning.value,
        "message": warning.why,
    }
