"""``corewise compute run``: the agent of a compute host."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from corewise.cli.compute_failures import told
from corewise.cli.compute_inputs import COMPAT, CONFIG, FOLDER, nova_conf
from corewise.cli.compute_placement import HOST, PlacementChoice, host_name, placement_options
from corewise.cli.durations import seconds
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.output import count, say
from corewise.compute.options import INTERVAL, ComputeOptions
from corewise.service.logs import LogFormat, configure
from corewise.service.options import Address, AddressError, OptionsError
from corewise.tracking import Compat

if TYPE_CHECKING:
    from corewise.compute.program import HostAgent


def _address(context: click.Context, parameter: click.Parameter, value: str | None) -> Address | None:
    try:
        return None if value is None else Address.parse(value)
    except AddressError as error:
        raise click.BadParameter(str(error), context, parameter) from error


@click.command()
@CONFIG
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default="/",
    show_default=True,
    metavar="DIR",
    help="Where the host's /proc and /sys are found.",
)
@COMPAT
@HOST
@click.option(
    "--state-dir",
    type=FOLDER,
    metavar="DIR",
    help="The host's directory: ledger.json is kept here, and topology.json and nova.conf for schedulers.",
)
@click.option("--libvirt", metavar="URI", help="Guests of this libvirt are entered in the ledger.")
@click.option(
    "--standalone", is_flag=True, help="Report MEMORY_MB too, for hosts without nova-compute; see --disk-gb."
)
@click.option(
    "--disk-gb", type=click.IntRange(0, 2**31 - 1), default=0, help="DISK_GB to report with --standalone."
)
@click.option(
    "--interval",
    default=f"{INTERVAL:.0f}s",
    show_default=True,
    metavar="TIME",
    callback=seconds,
    help="How often the host is looked at.",
)
@click.option(
    "--metrics-listen",
    metavar="HOST:PORT",
    callback=_address,
    help="Serve /livez, /readyz and /metrics here (HTTP).",
)
@click.option("--once", is_flag=True, help="Report once, print what was written, and end.")
@click.option("--dry-run", is_flag=True, help="With --once: print what would be written; write nothing.")
@placement_options
@click.option(
    "--log-format", type=click.Choice([f.value for f in LogFormat]), default="text", show_default=True
)
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
def command(
    config: tuple[Path, ...],
    root: Path,
    compat: Compat,
    name: str | None,
    state_dir: Path | None,
    libvirt: str | None,
    standalone: bool,
    disk_gb: int,
    interval: float,
    metrics_listen: Address | None,
    once: bool,
    dry_run: bool,
    placement: PlacementChoice,
    log_format: str,
    verbose: bool,
) -> None:
    """Keep what this host offers in Placement: inventories of VCPU and PCPU, and the trait of hyperthreads.

    Where cpu_dedicated_set is set for the first time, the guests that are pinned already are moved from VCPU
    to PCPU in the same request. Nothing is written where nothing differs. While Placement is away, what was
    last written stays in force. Options that have errors end the agent at its start, with every error.

    Runs until SIGTERM or SIGINT, which change nothing.
    """
    if dry_run and not once:
        raise click.UsageError("--dry-run goes with --once")
    if libvirt and state_dir is None:
        raise click.UsageError("--libvirt needs --state-dir, where the ledger is kept")
    if not placement.is_given:
        placement = _default(placement, state_dir, config)
    configure(LogFormat(log_format), verbose=verbose)
    with told():
        conf = nova_conf(config)
        options = ComputeOptions(
            name=host_name(name, conf),
            config=config,
            root=root,
            compat=compat,
            interval=interval,
            state_dir=state_dir,
            libvirt=libvirt,
            standalone=standalone,
            disk_gb=disk_gb,
            metrics_listen=metrics_listen,
            once=once,
            dry_run=dry_run,
        )
        try:
            _run(options, placement)
        except OptionsError as error:
            raise Failure(str(error), exit_code=ExitCode.USAGE) from error


def _default(given: PlacementChoice, state_dir: Path | None, config: tuple[Path, ...]) -> PlacementChoice:
    """Return the Placement that nova.conf names; else one of the host's own, in its directory."""
    if any(_names_placement(file) for file in config):
        return replace(given, from_config=True)
    if state_dir is None:
        raise click.UsageError(
            "say which Placement: [placement] of --config, --placement-url, --os-cloud or --placement-db; "
            "with --state-dir, there is an embedded one there"
        )
    return replace(given, database=state_dir / "placement.sqlite")


def _names_placement(file: Path) -> bool:
    try:
        return any(line.strip() == "[placement]" for line in file.read_text("utf-8", "replace").splitlines())
    except OSError:
        return False


def _run(options: ComputeOptions, placement: PlacementChoice) -> None:
    from corewise.compute.program import HostAgent, run_pass  # noqa: PLC0415 - needs an extra

    client = placement.client(nova_conf(options.config))
    if not options.once:
        asyncio.run(_until_told(HostAgent(options, client)))
        return
    passed = run_pass(options, client)
    for warning in passed.state.warnings:
        say(f"warning: {warning.reason}: {warning}")
    for write in passed.writes:
        click.echo(f"{write.reason}: {write.why}")
    verb = "would be written" if options.dry_run else "written"
    say(f"{count(len(passed.writes), 'change')} {verb}; the host is {options.name}")


async def _until_told(agent: HostAgent) -> None:
    """Run the agent until a signal ends it in order."""
    task = asyncio.ensure_future(agent.run())
    told_to_stop = False

    def stop() -> None:
        nonlocal told_to_stop
        told_to_stop = True
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        await task
    except asyncio.CancelledError:
        if not told_to_stop:
            raise
