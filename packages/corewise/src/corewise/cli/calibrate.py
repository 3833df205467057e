"""``corewise calibrate``: how fast this machine's CPUs are, and what ratios several such results give."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence

import click
import msgspec

from corewise.agent.calibration import (
    LARGEST_BUSY,
    MeasurementPlan,
    Unmeasurable,
    WorkerError,
    check_idle,
    check_memory,
    crew,
    measure,
)
from corewise.cli import output
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.files import TEXT_FILE, decoded
from corewise.cli.options import examples
from corewise.cli.output import Form
from corewise.kernel.host_files import HostFiles
from corewise.kernel.machine import read_machine
from corewise.kernel.usage import (
    TICKS_PER_SECOND,
    busiest,
    busy_share,
    read_cpu_times,
    read_memory_available,
    read_processes,
    stolen_share,
)
from corewise.normalization.calibration import (
    Calibration,
    CalibrationScore,
    IncomparableError,
    percent,
    ratio_model,
)
from corewise.normalization.calibration import decoded as decoded_results
from corewise.topology import CPUSet
from corewise.views.tables import Column
from corewise.views.text import count
from corewise.vocabulary.names import CONFIG_NAME, NORMALIZATION_KEY

_LOOKING_SECONDS = 0.5
_LOOKS = 60
_WORTH_TELLING = 100


@click.command(
    epilog=examples(
        "corewise calibrate -o json > this-machine.json", "corewise calibrate --model a.json b.json"
    )
)
@click.option("--model", is_flag=True, help="Make a ratioModel of the results in FILES; nothing is measured.")
@click.argument("files", nargs=-1, type=TEXT_FILE, metavar="[FILE]...")
@click.option(
    "--repeats",
    type=click.IntRange(3, 100),
    default=MeasurementPlan().repeats,
    show_default=True,
    help="Number of repetitions; the median counts. One takes about 4 s.",
)
@output.option((Form.TABLE, Form.JSON))
def command(model: bool, files: tuple[str, ...], repeats: int, form: Form) -> None:
    """Measure this machine's CPUs, or make ratios of such measurements.

    Without --model: integer, float and memory work runs on one CPU, on all CPUs, and on the threads of one
    core, with hyper-threading and turbo as they are set. Keep the result with: -o json > FILE. A busy machine
    and results that differ too much are refused.

    With --model: FILES hold results of several machines (- is stdin), and the ratioModel for the key
    cpu-normalization-config is printed as JSON; its slowest entry is 1.00.

    It does not measure: disk, network, the kernel, vector and crypto instructions, many-socket memory
    traffic, or how your own programs weigh these. Check the ratios against your own load.
    """
    if model:
        _print_model(files)
    elif files:
        raise click.UsageError("FILE needs --model; without it this machine is measured")
    else:
        _print_result(_measured(repeats), form)


def _measured(repeats: int) -> Calibration:
    machine = read_machine()
    topology = machine.host.topology.within(CPUSet.of(os.sched_getaffinity(0)))
    if not topology.threads:
        raise Failure("no CPU of this machine can be measured: /sys names none that this process may use")
    others = _watch_others(topology.cpus)
    try:
        check_memory(read_memory_available(HostFiles()), len(topology.cpus))
        check_idle(_quietest(topology.cpus))
        with crew(topology.cpus) as workers:
            return measure(
                machine,
                topology,
                workers.run,
                MeasurementPlan(repeats),
                lambda done: _progress(done, repeats),
            )
    except Unmeasurable as error:
        hint = "; ".join(filter(None, (others(), error.hint)))
        raise Failure(f"not measured: {error}", hint=hint, exit_code=ExitCode.REFUSED) from error
    except WorkerError as error:
        raise Failure(f"not measured: {error}", exit_code=ExitCode.REFUSED) from error
    finally:
        _progress(None, repeats)


def _quietest(cpus: CPUSet) -> int:
    """Wait for a quiet moment; return the share of CPU time that others took in the quietest one."""
    quietest = _busy_now(cpus)
    for _ in range(_LOOKS):
        if quietest <= LARGEST_BUSY:
            break
        _talk("waiting for a quiet moment ")
        quietest = min(quietest, _busy_now(cpus))
    return quietest


def _busy_now(cpus: CPUSet) -> int:
    files = HostFiles()
    before = read_cpu_times(files) or {}
    time.sleep(_LOOKING_SECONDS)
    return busy_share(before, read_cpu_times(files) or {}, cpus)


def _watch_others(cpus: CPUSet) -> Callable[[], str]:
    """Return a function that names other users of the CPUs from now on; "" if there are none."""
    files, began = HostFiles(), time.monotonic()
    processes, times = read_processes(files), read_cpu_times(files) or {}

    def words() -> str:
        seconds = max(0.01, time.monotonic() - began)
        said = [
            f"{each.name} (process {each.pid}) {100 * each.used / TICKS_PER_SECOND / seconds:.0f} %"
            for each in busiest(processes, read_processes(files), own={os.getpid()})
        ]
        stolen = stolen_share(times, read_cpu_times(files) or {}, cpus)
        said += [f"a hypervisor {percent(stolen)} of all"] if stolen >= _WORTH_TELLING else []
        return f"meanwhile used, of one CPU: {', '.join(said)}" if said else ""

    return words


def _progress(done: int | None, repeats: int) -> None:
    _talk("" if done is None else f"measuring {min(done + 1, repeats)} of {repeats} ")


def _talk(words: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{words}", err=True, nl=False)


def _print_result(result: Calibration, form: Form) -> None:
    if form is Form.JSON:
        click.echo(msgspec.json.encode(result).decode())
        return
    settings = [f"hyper-threading {_switch(on=result.hyper_thread_enabled)}"]
    settings.append(f"turbo {_switch(on=result.turbo_enabled)}")
    vendor = f" ({result.vendor_id})" if result.vendor_id else ""
    output.tell(f"{result.cpu_model}{vendor}, {', '.join(settings)}, {count(result.online_cpus, 'CPU')}")
    click.echo()
    click.echo(_table(result), nl=False)
    if result.all_cpus.cpus < result.online_cpus:
        measured = f"{result.all_cpus.cpus} of {result.online_cpus} CPUs"
        output.say(f"Only {measured} were measured: this process may not use more.")
    output.say(
        "Scores are of one CPU; only their ratio to another machine's means anything: -o json keeps them."
    )


def _switch(*, on: bool) -> str:
    return "on" if on else "off"


def _table(result: Calibration) -> str:
    rows = [("one CPU", result.single_thread), ("all CPUs", result.all_cpus)]
    if result.core_threads is not None:
        rows.append(("threads of one core", result.core_threads))
    columns: list[Column[tuple[str, CalibrationScore]]] = [
        Column("BUSY", lambda row: row[0]),
        Column("CPUS", lambda row: str(row[1].cpus), right=True),
        Column("SCORE", lambda row: _points(row[1].score), right=True),
        Column("INTEGER", lambda row: _points(row[1].integer), right=True),
        Column("FLOAT", lambda row: _points(row[1].float), right=True),
        Column("MEMORY", lambda row: _points(row[1].memory), right=True),
        Column("SPREAD", lambda row: percent(row[1].spread), right=True),
    ]
    return output.table(columns, rows)


def _points(score: int) -> str:
    return f"{score // 1000}"


def _print_model(files: Sequence[str]) -> None:
    if not files:
        raise click.UsageError("--model needs the FILES that hold results: corewise calibrate -o json > FILE")
    hint = "make one with: corewise calibrate -o json"
    expected = "a result of corewise calibrate"
    results = [each for file in files for each in decoded(file, decoded_results, expected, hint)]
    try:
        model = ratio_model(results)
    except IncomparableError as error:
        raise Failure(f"no ratios: {error}") from error
    click.echo(model.json(), nl=False)
    for warning in model.warnings:
        output.say(f"warning: {warning}")
    output.say(
        f"It goes into the key {NORMALIZATION_KEY} of ConfigMap {CONFIG_NAME} (corewise config check)."
    )
