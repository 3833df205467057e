"""``corewise compute run``: the agent of a compute host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corewise.cli import output
from corewise.cli.files import FOLDER
from corewise.cli.options import (
    ADDRESS,
    LOG_OPTIONS,
    METRICS_LISTEN,
    TLS_OPTIONS,
    duration,
    examples,
    run_program,
)
from corewise.cli.output import Form, say
from corewise.service.logs import LogFormat, configure
from corewise.views.text import count
from corewise_openstack.actions import Reshape, WriteInventories, WriteTraits
from corewise_openstack.cli.inventory import inventory_records
from corewise_openstack.cli.options import (
    BESIDE_NOVA,
    HOST,
    PlacementChoice,
    host_name,
    host_options,
    nova_conf,
    placement_options,
    warning_records,
)
from corewise_openstack.compute.options import GRACE, INTERVAL, ComputeOptions, Grace
from corewise_openstack.tracking import Compat

if TYPE_CHECKING:
    from corewise_openstack.compute.offering import PlacementWrite
    from corewise_openstack.compute.program import Passed


@click.command(
    epilog=examples(
        "corewise compute run --config /etc/nova/nova.conf --state-dir state",
        "corewise compute run --config /etc/nova/nova.conf --once --dry-run",
        "corewise compute run --beside-nova /etc/nova/nova.conf --state-dir state",
    )
)
@host_options
@HOST
@BESIDE_NOVA
@click.option(
    "--state-dir",
    type=FOLDER,
    metavar="DIR",
    help="The host's directory: ledger.json is kept here, and topology.json and nova.conf for schedulers.",
)
@click.option("--libvirt", metavar="URI", help="The ledger follows the domains of this libvirt.")
@click.option(
    "--apply",
    is_flag=True,
    help="With --libvirt: write the CPUs of scheduled guests into their domains (see compute apply).",
)
@duration(
    "--forget-after",
    default=f"{GRACE.applied:.0f}s",
    help="With --libvirt: release CPUs when their guest's domain has been gone or unpinned for this long.",
)
@duration(
    "--await-domain",
    default=f"{GRACE.awaited:.0f}s",
    help="With --libvirt: release a scheduled guest whose domain has not appeared for this long.",
)
@click.option(
    "--standalone", is_flag=True, help="Report MEMORY_MB too, for hosts without nova-compute; see --disk-gb."
)
@click.option(
    "--disk-gb", type=click.IntRange(0, 2**31 - 1), default=0, help="DISK_GB to report with --standalone."
)
@duration(
    "--interval",
    default=f"{INTERVAL:.0f}s",
    help="Time between two passes.",
)
@METRICS_LISTEN
@click.option("--listen", help="Serve the host's ledger to schedulers here (HTTPS).", **ADDRESS)
@TLS_OPTIONS
@click.option(
    "--placement-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of an embedded Placement, on the loopback interface.  [default: any]",
)
@click.option("--once", is_flag=True, help="Report once, print what was written, and end.")
@click.option("--dry-run", is_flag=True, help="With --once: print what would be written; write nothing.")
@placement_options
@output.option((Form.TABLE, Form.JSON, Form.YAML))
@LOG_OPTIONS
def command(
    name: str | None,
    root: Path | None,
    placement_port: int,
    placement: PlacementChoice,
    form: Form,
    log_format: str,
    verbose: bool,
    forget_after: float,
    await_domain: float,
    **given: Any,
) -> None:
    """Report what this host offers to Placement: inventories of VCPU and PCPU, and the hyperthreading trait.

    Where cpu_dedicated_set is set for the first time, the guests that are pinned already are moved from VCPU
    to PCPU in the same request. Only differences are written. While Placement is down, the last state
    written stays. Options with errors end the agent at its start, and every error is named.

    With --beside-nova, nova-compute reports the host: the agent checks that Placement has what nova.conf
    says, and writes nothing there. With --config too, the agent owns the CPUs of that file, which no set of
    Nova's may name.

    With --listen, schedulers need no access to --state-dir: they name the agent with --agent, and it gives
    them the host's CPUs itself. --tls-cert, --tls-key and --client-ca are needed then.

    Runs until SIGTERM or SIGINT, which change nothing.
    """
    _check(root, form, given)
    beside_nova = given["beside_nova"]
    if beside_nova:
        given["compat"] = Compat.NOVA
        if given["standalone"]:
            raise click.UsageError(
                "--standalone reports the memory of the host, which nova-compute does: not with --beside-nova"
            )
        if given["config"] and not name:
            raise click.UsageError("name a provider of corewise's own with --host: the host's name is Nova's")
    files = given["config"] or beside_nova
    if not placement.is_given:
        of_nova = bool(beside_nova and not given["config"])
        needed = not given["dry_run"]
        placement = _default(placement, files, given["state_dir"], of_nova=of_nova, needed=needed)
    configure(LogFormat(log_format), verbose=verbose)
    host = host_name(name, nova_conf(files), given["libvirt"], beside_nova=bool(beside_nova))
    grace = Grace(forget_after, await_domain)
    options = ComputeOptions(name=host, root=root or Path("/"), grace=grace, **given)
    _run(options, placement, form, placement_port)


def _check(root: Path | None, form: Form, given: dict[str, Any]) -> None:
    """Refuse options that do not go together."""
    if given["dry_run"] and not given["once"]:
        raise click.UsageError("--dry-run goes with --once")
    if given["libvirt"] and given["state_dir"] is None:
        raise click.UsageError("--libvirt needs --state-dir, where the ledger is kept")
    if given["apply"] and not given["libvirt"]:
        raise click.UsageError("--apply needs --libvirt: the domains that it writes")
    if given["apply"] and given["beside_nova"] and not given["config"]:
        raise click.UsageError("--apply: Nova pins the guests of this host (--beside-nova)")
    _check_listen(given)
    if given["topology"] and root:
        raise click.UsageError("--topology and --root exclude each other: both say what the host is")
    if form is not Form.TABLE and not given["once"]:
        raise click.UsageError("-o goes with --once")


def _check_listen(given: dict[str, Any]) -> None:
    """Refuse options of the ledger's server that do not go together."""
    if given["listen"]:
        needed = {"--state-dir": "state_dir", "--tls-cert": "tls_cert", "--tls-key": "tls_key"}
        needed |= {"--client-ca": "client_ca"}
        missing = [option for option, name in needed.items() if not given[name]]
        if missing:
            raise click.UsageError(f"--listen needs {', '.join(missing)} too")
        if given["once"] or (given["beside_nova"] and not given["config"]):
            raise click.UsageError("--listen: not with --once, nor where Nova has all CPUs (--beside-nova)")
    elif given["tls_cert"] or given["tls_key"] or given["client_ca"]:
        raise click.UsageError("--tls-cert, --tls-key and --client-ca go with --listen")


def _default(
    given: PlacementChoice, config: tuple[Path, ...], state_dir: Path | None, *, of_nova: bool, needed: bool
) -> PlacementChoice:
    """Return the Placement that nova.conf names; else one of the host's own, in its directory."""
    if any(_names_placement(file) for file in config):
        return replace(given, placement_from_config=True)
    if not needed:
        return given
    if of_nova:
        raise click.UsageError(
            "name Nova's Placement: [placement] in the file of --beside-nova, --placement-url or --os-cloud"
        )
    if state_dir is None:
        raise click.UsageError(
            "say which Placement: [placement] of --config, --placement-url, --os-cloud or --placement-db; "
            "with --state-dir, an embedded one is used"
        )
    return replace(given, placement_db=state_dir / "placement.sqlite")


def _names_placement(file: Path) -> bool:
    try:
        return any(line.strip() == "[placement]" for line in file.read_text("utf-8", "replace").splitlines())
    except OSError:
        return False


def _run(options: ComputeOptions, placement: PlacementChoice, form: Form, port: int) -> None:
    from corewise_openstack.compute import program  # noqa: PLC0415 - slow to import

    client = placement.client(nova_conf(options.conf_files)) if placement.is_given else None
    if options.once:
        _print(program.run_pass(options, client), options, form)
    else:
        with _served(placement, port):
            claims = placement.client(nova_conf(options.conf_files)) if options.listen else None
            run_program(program.HostAgent(options, client, claims=claims).run())


@contextmanager
def _served(placement: PlacementChoice, port: int) -> Iterator[None]:
    """Serve an embedded Placement, so that others can ask it: one process has its file."""
    if placement.placement_db is None:
        yield
        return
    from corewise_openstack.openstack.embedded import served, start  # noqa: PLC0415 - slow to import

    with served(start(placement.placement_db), port) as endpoint:
        say(f"the embedded Placement is served: --placement-url {endpoint}")
        yield


def _print(passed: Passed, options: ComputeOptions, form: Form) -> None:
    for warning in passed.state.warning_lines:
        say(f"warning: {warning}")
    for change in passed.state.changes:
        say(f"{change.reason}: guest {change.guest}: {change.message}")
    if form is not Form.TABLE:
        click.echo(output.document_text(_document(passed, options), form), nl=False)
        return
    for write in passed.writes:
        click.echo(f"{write.reason}: {write.why}")
    if options.checks_only:
        say(f"{count(len(passed.writes), 'difference')} from nova.conf; the host is {options.name}")
        return
    verb = "written" if passed.written else "would be written"
    say(f"{count(len(passed.writes), 'change')} {verb}; the host is {options.name}")


def _document(passed: Passed, options: ComputeOptions) -> dict[str, Any]:
    return {
        "host": options.name,
        "written": bool(passed.writes) and passed.written,
        "changes": [_change(write) for write in passed.writes],
        "warnings": warning_records(passed.state.warnings),
    }


def _change(write: PlacementWrite) -> dict[str, Any]:
    change: dict[str, Any] = {"reason": write.reason, "why": write.why}
    match write:
        case WriteInventories():
            change["inventories"] = inventory_records(dict(sorted(write.inventories.items())))
        case WriteTraits():
            change["traits"] = sorted(write.traits)
        case Reshape():
            change["guests"] = [consumer.uuid for consumer in write.consumers]
    return change
