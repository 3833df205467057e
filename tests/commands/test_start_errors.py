"""A command that runs until a signal says in a sentence why it cannot start, and picks the exit code.

``CASES`` has a row for each such command and each error that it can meet at its start. Programs of a Pod wait
for what a cluster may still become (an API server that answers, a mounted certificate): they log the error,
and go on.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from api_process import local_api_server
from commands.command_tree import contexts
from corewise.service.http_servers import HTTP_SERVERS
from corewise.vocabulary.exit_codes import ExitCode
from golden.transcripts import INPUTS
from identities import PROGRAMS, kubeconfig_of
from kubedouble.certificates import Authority
from page_account import page_kubeconfig

WITHIN = 300.0
HOST = INPUTS / "compute" / "hosts" / "a"
LOG_LINE = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z (info|warning|error)")
GOES_ON = 0
"""The exit code of a program that logs the error and waits, until a signal ends it in order."""

COMMANDS = {
    "web": "web --kubeconfig {as_web} --listen 127.0.0.1:0",
    "manager": "manager --kubeconfig {as_manager} --webhook-listen 127.0.0.1:0 --tls-cert {crt} "
    "--tls-key {key}",
    "scheduler": "scheduler --kubeconfig {as_scheduler} --listen 127.0.0.1:0 --tls-cert {crt} "
    "--tls-key {key} --client-ca {ca}",
    "agent": "agent --kubeconfig {as_agent} --node-name n1 --no-nri --root {root} --state-dir {root}/state",
    "compute run": f"compute run --config {HOST}/nova.conf --topology {HOST}/topology.json --host h "
    "--placement-url http://127.0.0.1:1 --state-dir {root}/compute",
    "top": "top --kubeconfig {good}",
    "up": "up --for 1s",
    "kubedouble": "kubedouble --kubeconfig-out {root}/kubeconfig",
}
"""How each command starts; options of a row come after these, and replace them."""

SERVED = {
    "web": ("--listen", "--metrics-listen"),
    "manager": ("--webhook-listen", "--metrics-listen"),
    "scheduler": ("--listen", "--metrics-listen"),
    "agent": ("--metrics-listen",),
    "compute run": ("--listen", "--metrics-listen"),
    "kubedouble": ("--listen",),
}
"""The options by which a command is told where to listen."""

Case = tuple[str, str, int, str]
"""A command, the options that it cannot start with, its exit code, and what it says."""


def _of_a_kubeconfig() -> Iterator[Case]:
    for command in ("web", "manager", "scheduler", "agent", "top"):
        yield command, "--kubeconfig {folder}/none", ExitCode.BAD_INPUT, "none: No such file or directory"
        yield command, "--kubeconfig {broken}", ExitCode.BAD_INPUT, "{broken} is not a kubeconfig: "
        yield command, "--kubeconfig {locked}", ExitCode.BAD_INPUT, "{locked}: Permission denied"
        yield command, "--kubeconfig {folder}", ExitCode.USAGE, "File '{folder}' is a directory"
        yield (
            command,
            "--context nosuch",
            ExitCode.BAD_INPUT,
            "kubeconfig: no context 'nosuch'\n  known: kubedouble",
        )
        for name, wrong in (
            ("bad_ca", "the certificate authority is not a PEM certificate"),
            ("bad_crt", "the client certificate and key cannot be used"),
            ("bad_key", "the client certificate and key cannot be used"),
        ):
            yield command, f"--kubeconfig {{{name}}}", ExitCode.BAD_INPUT, f"{{{name}}}: {wrong}"
        waits = command not in {"web", "top"}
        refused = GOES_ON if waits else ExitCode.UNAUTHORIZED
        unreachable = GOES_ON if waits else ExitCode.CONNECTION
        yield command, "--kubeconfig {unreachable}", unreachable, "at https://127.0.0.1:1: cannot connect: "
        yield command, "--kubeconfig {unknown}", refused, ": Unauthorized"
        yield (
            command,
            "--kubeconfig {nobody}",
            refused,
            'User "system:anonymous" cannot list resource "nodes"',
        )


def _of_an_address() -> Iterator[Case]:
    tls = " --tls-cert {crt} --tls-key {key}"
    needed = {"web": f"{tls} --auth token", "compute run": f"{tls} --client-ca {{ca}}"}
    for command, options in SERVED.items():
        code = 1 if command == "kubedouble" else ExitCode.USAGE
        for option in options:
            more = needed.get(command, "") if option == "--listen" else ""
            yield command, f"{option} {{used}}{more}", code, "cannot listen on {used}: address already in use"
            yield command, f"{option} nowhere{more}", code, "write HOST:PORT, such as 127.0.0.1:"
        option, more = options[0], needed.get(command, "")
        for address, why in (
            ("192.0.2.1:1", "cannot assign requested address"),
            ("{privileged}", "permission denied"),
            ("a..b:1", "no such host"),
        ):
            yield command, f"{option} {address}{more}", code, f"cannot listen on {address}: {why}"
    yield "web", "--listen 192.0.2.1:1", ExitCode.USAGE, "192.0.2.1:1 can be reached from other machines: add"
    yield "kubedouble", "--listen 127.0.0.1:65536", 1, "write HOST:PORT"


def _of_a_directory() -> Iterator[Case]:
    for command, option, code in (
        ("agent", "--state-dir", ExitCode.REFUSED),
        ("compute run", "--state-dir", ExitCode.BAD_INPUT),
        ("up", "--state", ExitCode.BAD_INPUT),
        ("up", "--scenario openstack --state", ExitCode.BAD_INPUT),
        ("kubedouble", "--state", os.EX_IOERR),
    ):
        yield command, f"{option} {{crt}}", ExitCode.USAGE, "Directory '{crt}' is a file"
        yield command, f"{option} {{crt}}/below", code, "{crt}/below"
        yield command, f"{option} {{sealed}}/below", code, "{sealed}/below"
        sealed = ExitCode.LEDGER if command == "compute run" else code
        yield command, f"{option} {{sealed}}", sealed, "{sealed}"
    for command, code in (("up", int(ExitCode.BAD_INPUT)), ("kubedouble", 1)):
        for file in ("{folder}/none/k", "{crt}/k", "{sealed}/k", "{sealed}/old", "{pipe}", "{long}"):
            yield command, f"--kubeconfig-out {file}", code, f"cannot write {file}: "
        yield command, "--kubeconfig-out {folder}", ExitCode.USAGE, "File '{folder}' is a directory"
    for scenario in ("openstack", "outage"):
        call = f"--scenario {scenario} --kubeconfig-out {{sealed}}/k"
        yield "up", call, ExitCode.USAGE, f"--scenario {scenario} goes with"
    yield "compute run", "--placement-url= --placement-db {sealed}/db", ExitCode.BAD_INPUT, "{sealed}/db.lock"


def _of_a_file() -> Iterator[Case]:
    for command, option, wrong in (
        ("scheduler", "--config", "{broken}: line 1, column"),
        ("up", "--scenario", "{broken}: cannot be used\n  line 1, column"),
        ("up", "--from", "{broken}: not what kubectl prints: "),
        ("compute run", "--config", "{broken}:1, Section must be started"),
        ("compute run", "--topology", "{broken}"),
    ):
        yield command, f"{option} {{broken}}", ExitCode.BAD_INPUT, wrong
        yield command, f"{option} {{locked}}", ExitCode.BAD_INPUT, "{locked}"
        yield command, f"{option} {{folder}}/none", ExitCode.BAD_INPUT, "none"
    yield (
        "compute run",
        "--config /proc/self/mem",
        ExitCode.BAD_INPUT,
        "mem cannot be read: Input/output error",
    )
    for file, wrong in (("{broken}", "line 1: column 'sn' is missing"), ("{locked}", "Permission denied")):
        yield "up", f"--from-openb {file} {file}", ExitCode.BAD_INPUT, wrong
    tls = "--listen 127.0.0.1:0 --tls-key {key} --client-ca {ca} --tls-cert"
    unreadable = "cannot read the certificate files: "
    for file, wrong in (
        ("{folder}/none", f"{unreadable}[Errno 2] No such file or directory: '{{folder}}/none'"),
        ("{locked}", f"{unreadable}[Errno 13] Permission denied: '{{locked}}'"),
        ("{broken}", "not a PEM certificate"),
    ):
        yield "web", f"--tls-key {{key}} --tls-cert {file}", ExitCode.BAD_INPUT, f"cannot be used: {wrong}"
        yield "compute run", f"{tls} {file}", ExitCode.BAD_INPUT, f"cannot be used: {wrong}"
        for command in ("manager", "scheduler"):
            yield (
                command,
                f"--tls-cert {file}",
                GOES_ON,
                f"the serving certificate cannot be renewed: {wrong}",
            )
    yield "compute run", f"{tls} {{crt}} --client-ca {{folder}}/none", ExitCode.BAD_INPUT, "--client-ca"


CASES = [*_of_a_kubeconfig(), *_of_an_address(), *_of_a_directory(), *_of_a_file()]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield the files, directories, addresses and kubeconfigs of a running server that the rows name."""
    folder = tmp_path_factory.mktemp("world")
    files = {
        name: folder / name for name in ("broken", "locked", "pipe", "crt", "key", "ca", "root", "sealed")
    }
    files["broken"].write_text("a: [")
    files["locked"].write_text("")
    files["locked"].chmod(0)
    os.mkfifo(files["pipe"])
    authority = Authority.create("authority", now=datetime.now(UTC))
    serving = authority.issue_server(["127.0.0.1"], now=datetime.now(UTC))
    for name, text in (
        ("crt", serving.certificate_pem),
        ("key", serving.key_pem),
        ("ca", authority.certificate_pem),
    ):
        files[name].write_text(text)
    boot = files["root"] / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("boot\n")
    files["sealed"].mkdir()
    (files["sealed"] / "old").touch()
    files["sealed"].chmod(0o500)
    with local_api_server(folder) as good, closing(socket.create_server(("127.0.0.1", 0))) as taken:
        yield {
            **{name: str(file) for name, file in files.items()},
            **_kubeconfigs(folder, json.loads(good.read_text())),
            "folder": str(folder),
            "long": str(folder / ("x" * 300)),
            "used": f"127.0.0.1:{taken.getsockname()[1]}",
            "privileged": f"127.0.0.1:{_highest_privileged_port()}",
            "good": str(good),
            "as_web": str(asyncio.run(page_kubeconfig(good))),
            **{f"as_{each}": str(asyncio.run(kubeconfig_of(each, good))) for each in PROGRAMS},
        }


def _kubeconfigs(folder: Path, good: dict[str, Any]) -> dict[str, str]:
    """Write kubeconfigs that differ from a good one in one thing each; return their paths."""
    nonsense = base64.b64encode(b"nonsense").decode()
    identity = good["users"][0]["user"]
    made = {
        "bad_ca": ({"certificate-authority-data": nonsense}, identity),
        "bad_crt": ({}, identity | {"client-certificate-data": nonsense}),
        "bad_key": ({}, identity | {"client-key-data": nonsense}),
        "unreachable": ({"server": "https://127.0.0.1:1"}, identity),
        "unknown": ({}, {"token": "nonsense"}),
        "nobody": ({}, {}),
    }
    for name, (cluster, user) in made.items():
        known = good["clusters"][0]
        clusters = [known | {"cluster": known["cluster"] | cluster}]
        users = [good["users"][0] | {"user": user}]
        (folder / name).write_text(json.dumps(good | {"clusters": clusters, "users": users}))
    return {name: str(folder / name) for name in made}


def _highest_privileged_port() -> int:
    return int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) - 1


_WARM = """
import ctypes, gc, importlib, json, os, runpy, sys, traceback
if sys.argv[1:]:
    for capability in (1, 2, 10):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_NET_BIND_SERVICE
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
    os.execv(sys.executable, [sys.executable, "-c", os.environ["WARM"]])
for name in json.loads(os.environ["MODULES"]):
    importlib.import_module(name)
gc.freeze()  # what is imported is no garbage of a command
for line in sys.stdin:
    module, arguments, terminal, error, directory = json.loads(line)
    if not (child := os.fork()):
        os.setsid()
        streams = os.open(terminal, os.O_RDWR), os.open(error, os.O_WRONLY | os.O_CREAT)
        for ours, stream in ((0, streams[0]), (1, streams[0]), (2, streams[1])):
            os.dup2(stream, ours)
        os.chdir(directory)
        sys.argv = [module, *arguments]
        code = 0
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
            code = 70
        gc.collect()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Run modules in forks of one process that has imported them. A JSON line each; answers: PID, then exit code.
The process lacks what lets root read and write every file, and listen on every port."""

IMPORTED = [
    *(f"corewise.cli.{each}" for each in ("agent", "manager", "scheduler", "top_app", "web_page")),
    "corewise_lab.cli.up",
    "corewise_openstack.cli.run",
    "corewise_openstack.compute.program",
]


@pytest.fixture(scope="module")
def warm() -> Iterator[subprocess.Popen[str]]:
    environment = {"TERM": "xterm", "OPENBLAS_NUM_THREADS": "1", "WARM": _WARM}
    environment["MODULES"] = json.dumps([*IMPORTED, "kubedouble.server"])
    with subprocess.Popen(
        [sys.executable, "-c", _WARM, "unprivileged"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    ) as process:
        yield process
        assert process.stdin
        process.stdin.close()


def end_of(
    call: str, said: str, error: Path, warm: subprocess.Popen[str], *, goes_on: bool
) -> tuple[int, str]:
    """Run a command to its end, on a terminal; one that goes on is ended once it has said what it should.

    Returns:
        its exit code, and all that it wrote to stderr.
    """
    assert warm.stdin
    assert warm.stdout
    module, *arguments = call.split() if call.startswith("kubedouble") else ["corewise", *call.split()]
    terminal, slave = pty.openpty()
    error.touch()
    try:
        request = module, arguments, os.ttyname(slave), str(error), str(error.parent)
        print(json.dumps(request), file=warm.stdin, flush=True)
        child = int(warm.stdout.readline())
        watchdog = threading.Timer(WITHIN, os.kill, (child, signal.SIGKILL))
        watchdog.start()
        while goes_on and said not in error.read_text() and Path(f"/proc/{child}").exists():
            time.sleep(0.05)
        if goes_on:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
        code = int(warm.stdout.readline())
        watchdog.cancel()
    finally:
        os.close(slave)
        os.close(terminal)
    return code, error.read_text()


@pytest.mark.parametrize(
    ("command", "options", "code", "said"), CASES, ids=[f"{a}-{b}" for a, b, *_ in CASES]
)
def test_command_unable_to_start_explains_in_a_sentence(
    command: str,
    options: str,
    code: int,
    said: str,
    world: dict[str, str],
    warm: subprocess.Popen[str],
    tmp_path: Path,
) -> None:
    if "{privileged}" in options and _highest_privileged_port() < 1:
        pytest.skip("every user may listen on every port here")
    call = f"{COMMANDS[command]} {options}".format(**world)
    expected = said.format(**world)
    ended, told = end_of(call, expected, tmp_path / "stderr", warm, goes_on=code == GOES_ON)
    assert expected in told
    assert ended == code, told
    assert not re.search("Traceback|never awaited|this is a bug", told)
    said_at_all = told.partition("The scenarios are:")[0].splitlines()
    sentences = [line for line in said_at_all if line and not LOG_LINE.match(line)]
    assert len(sentences) <= (0 if code == GOES_ON else 3), told
    if code in {ExitCode.CONNECTION, ExitCode.UNAUTHORIZED}:
        assert told.startswith("corewise: ")


def _names_in(function: FunctionType) -> set[str]:
    """Return the names that a function uses, and those that functions of its module use for it."""
    names, todo = set[str](), [function.__code__]
    while todo:
        code = todo.pop()
        todo += [each for each in code.co_consts if isinstance(each, CodeType)]
        for name in set(code.co_names) - names:
            names.add(name)
            used = function.__globals__.get(name)
            if isinstance(used, FunctionType) and used.__module__ == function.__module__:
                todo.append(used.__code__)
    return names


def test_table_has_every_command_that_runs_until_signaled() -> None:
    runs = {"run_program", "on_stop_signals", "corewise.cli.top_app"}
    found = {
        context.command_path.removeprefix("corewise ")
        for context in contexts()
        if isinstance(callback := inspect.unwrap(context.command.callback or len), FunctionType)
        and _names_in(callback) & runs
    }
    assert found == COMMANDS.keys() - {"kubedouble"}
    assert {program for server in HTTP_SERVERS for program in server.programs.split(", ")} <= {
        each.split()[0] for each in found
    }
    assert {command for command, *_ in CASES} == COMMANDS.keys()


def test_table_has_every_address_and_kubeconfig_of_commands() -> None:
    for context in contexts():
        command = context.command_path.removeprefix("corewise ")
        if command not in COMMANDS:
            continue
        addresses = {each.opts[0] for each in context.command.params if each.metavar == "HOST:PORT"}
        assert addresses == set(SERVED.get(command, ())), command
        if any(each.name == "kubeconfig" for each in context.command.params):
            assert any(name == command and "{unreachable}" in options for name, options, *_ in CASES), command
