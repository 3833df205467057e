"""``corewise top`` against a local API server: printed once, in every form, and live on a terminal.

Reports are from the future where they are to be fresh: a busy machine must not make them old.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from fcntl import ioctl
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from api_process import local_api_server
from cli.offline_world import CALM, REPORT, aged, changed, labeled
from corewise.cli import corewise
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import NODES
from corewise.vocabulary.names import OFFLINE_REPORT
from corewise.vocabulary.offline_report import OfferState, OfflineReport

DEADLINE = 60.0
FRESH, OLD = -3600, 37_800
CLEAN = b"\x1b[?1049l"
"""What brings the terminal's first screen back."""
CURSOR = b"\x1b[?25h"
MOUSE_OFF = b"\x1b[?1000l"


def now(report: OfflineReport, seconds: int = FRESH) -> OfflineReport:
    return aged(report, seconds, datetime.now(UTC))


async def fill(kubeconfig: Path) -> None:
    nodes = {
        "n1": labeled(now(REPORT)),
        "n2": labeled(now(CALM)),
        "n3": labeled(now(changed(CALM, allocatable_milli=8_000, suppression=None))),
        "n4": labeled(now(CALM, OLD)),
        "n5": labeled(now(changed(REPORT, state=OfferState.FROZEN, missing=4))),
        "silent": labeled(None),
        "strange": {"annotations": {OFFLINE_REPORT: "?"}},
        "off-a": {},
        "off-b": {},
    }
    async with Client(load_config(str(kubeconfig))) as client:
        for name, meta in nodes.items():
            await client.create(NODES, {"metadata": {"name": name, **meta}})


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with local_api_server(tmp_path_factory.mktemp("cluster")) as path:
        asyncio.run(fill(path))
        yield path


def call(kubeconfig: Path, *arguments: str) -> Result:
    return CliRunner().invoke(corewise, ["top", *arguments, "--kubeconfig", str(kubeconfig)])


def test_table_splits_node_cpu_and_names_the_limit(kubeconfig: Path) -> None:
    result = call(kubeconfig, "offline")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line[:65] for line in lines] == [
        "NODE  CPU      ONLINE     OFFLINE        IDLE  OFFERED  QUOTA  LI",
        "n1     16  10.0 (62%)  3.00 (18%)  3.00 (18%)     2.50   4.00  go",
        "n2     16  2.00 (12%)   1.50 (9%)  12.5 (78%)     8.40   8.40  0.",
        "n3      8  2.00 (25%)  1.50 (18%)  4.50 (56%)     8.40      -  no",
        "n4     16  2.00 (12%)   1.50 (9%)  12.5 (78%)     8.40   8.40  0.",
        "n5     16  10.0 (62%)  3.00 (18%)  3.00 (18%)     2.50   4.00  go",
        "*      72  26.0 (36%)  10.5 (14%)  35.5 (49%)     30.2   24.8    ",
    ]
    assert [" ".join(line[63:].split()) for line in lines] == [
        "LIMITED BY AGE ONLINE LATELY OFFLINE LATELY",
        "going down to 2.5: 0.60 of idle, less CPUs owned 0s ▃▃▃▃▃▃▆▆▆▆ ▄▄▄▄▄▄▂▂▂▂",
        "0.60 of idle 0s ▂▂▂▂▂▂▂▂▂▂ ▁▁▁▁▁▁▁▁▁▁",
        "nothing: not suppressed (offer: 0.60 of idle) 0s ▃▃▃▃▃▃▃▃▃▃ ▂▂▂▂▂▂▂▂▂▂",
        "0.60 of idle 10h OLD ▂▂▂▂▂▂▂▂▂▂ ▁▁▁▁▁▁▁▁▁▁",
        "going down to 2.5: no samples: frozen 0s ▃▃▃▃▃▃▆▆▆▆ ▄▄▄▄▄▄▂▂▂▂",
        "▂▂▂▂▂▂▃▃▃▃ ▂▂▂▂▂▂▂▂▂▂",
    ]


def test_omitted_or_unreliable_data_is_reported_on_stderr(kubeconfig: Path) -> None:
    old, no_samples, strange, silent, free, off = call(kubeconfig, "offline").stderr.splitlines()
    explain = f"corewise explain suppression --kubeconfig {kubeconfig}"
    assert old.startswith(f"1 node has old data, up to 10h: n4 ({explain} n4; until")
    assert no_samples == f"1 node has no samples: n5 ({explain} n5)"
    assert strange.startswith("1 node has a report that cannot be read: strange")
    assert silent.startswith("1 node has the label volcano.sh/oversubscription=true and no report: silent")
    assert free.startswith(
        "1 node has no suppression: n3 (turn it on: key cpu-suppression-config of ConfigMap"
    )
    assert off == (
        "2 nodes not shown: oversubscription is off. Turn it on: "
        f"kubectl --kubeconfig {kubeconfig} label node off-a "
        "volcano.sh/oversubscription=true, and key cpu-suppression-config of ConfigMap "
        "corewise-system/slo-controller-config"
    )


def test_machine_forms_name_units_and_hold_the_same(kubeconfig: Path) -> None:
    document = json.loads(call(kubeconfig, "offline", "-o", "json").stdout)
    assert [item["name"] for item in document["items"]] == ["n1", "n2", "n3", "n4", "n5"]
    first = document["items"][0]
    assert first["onlineCPUMilli"] + first["offlineCPUMilli"] + first["idleCPUMilli"] == 16_000
    assert (first["offeredCPUMilli"], first["quotaCPUMilli"], first["targetCPUMilli"]) == (2500, 4000, 2500)
    assert first["reason"] == "SuppressionSteppedDown"
    assert first["why"] == "from 5.6 to 4.0 of 2.5 CPUs, by at most 1.6"
    assert (first["stale"], document["items"][3]["stale"]) == (False, True)
    assert first["onlineHistoryCPUMilli"] == [4_000] * 6 + [10_000] * 4
    for key, value in document["total"].items():
        assert value == sum(item[key] or 0 for item in document["items"])
    as_yaml = yaml.safe_load(call(kubeconfig, "offline", "-o", "yaml").stdout)
    for each in (*document["items"], *as_yaml["items"]):
        each.pop("ageSeconds")
    assert as_yaml == document
    rows = list(csv.DictReader(io.StringIO(call(kubeconfig, "offline", "-o", "csv").stdout)))
    assert rows[0]["offeredCPUMilli"] == "2500"


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("name", "n1 n2 n3 n4 n5"),
        ("online", "n1 n5 n2 n3 n4"),
        ("offline", "n1 n5 n2 n3 n4"),
        ("idle", "n2 n4 n3 n1 n5"),
        ("offered", "n2 n3 n4 n1 n5"),
        ("quota", "n2 n4 n1 n5 n3"),
        ("age", "n4 n1 n2 n3 n5"),
    ],
)
def test_nodes_are_sorted_as_asked_the_largest_first(kubeconfig: Path, order: str, names: str) -> None:
    printed = call(kubeconfig, "offline", "--sort", order, "-o", "name").stdout.split()
    assert [line.removeprefix("node/") for line in printed] == names.split()


def test_wide_adds_pods_target_mode_and_state(kubeconfig: Path) -> None:
    heading, first, *_ = call(kubeconfig, "offline", "-o", "wide").stdout.splitlines()
    for column in ("TARGET", "PODS", "NATIVE BE", "OFFERED MEM GiB", "REPAIRED", "MODE", "STATE"):
        assert column in heading
    assert "besteffort-quota  suppressing" in first
    end = heading.index("NATIVE BE") + len("NATIVE BE")
    assert first[:end].split()[-2:] == ["5", "2"]


def test_selector_that_matches_no_node_does_not_crash(kubeconfig: Path) -> None:
    result = call(kubeconfig, "offline", "-l", "pool=none")
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()][1][:2] == ["*", "0"]
    assert result.stderr == ""


@pytest.mark.parametrize("table", ["nodes", "pods"])
def test_a_sort_by_no_column_names_the_columns(kubeconfig: Path, table: str) -> None:
    result = call(kubeconfig, table, "--sort", "nosuch")
    assert result.exit_code == 2
    assert "there is no column 'nosuch'; columns are: " in result.stderr
    assert call(kubeconfig, table, "--sort", "STATE").exit_code == 0


def test_table_of_nodes_matches_that_of_corewise_nodes(kubeconfig: Path) -> None:
    nodes = CliRunner().invoke(corewise, ["nodes", "--all", "-o", "json", "--kubeconfig", str(kubeconfig)])
    assert call(kubeconfig, "nodes", "-o", "json").stdout == nodes.stdout


def test_printed_and_interactive_table_are_the_same(kubeconfig: Path) -> None:
    assert call(kubeconfig, "--once", "-o", "name").stdout == call(kubeconfig, "nodes", "-o", "name").stdout
    screen = Screen("top", "--kubeconfig", str(kubeconfig))
    try:
        screen.until(b"nodes, by NODE")
        screen.process.send_signal(signal.SIGINT)
        assert screen.ended() == 0
    finally:
        screen.close()


class Screen:
    """A terminal, 160 x 30, in which a command runs."""

    def __init__(self, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 160, 0, 0))
        self.before = termios.tcgetattr(slave)
        self._slave = slave
        environment = {**os.environ, "TERM": "xterm-256color", "PYTHONUTF8": "1"}
        environment.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "corewise", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
        )
        self.seen = b""

    def until(self, text: bytes) -> None:
        """Read until the text has been seen, and forget what came up to it."""
        deadline = time.monotonic() + DEADLINE
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen.decode(errors="replace")
            self._read()
        self.seen = self.seen.partition(text)[2]

    def ended(self) -> int:
        """Wait until the command has ended; return its exit code."""
        deadline = time.monotonic() + DEADLINE
        while self.process.poll() is None:
            assert time.monotonic() < deadline
            self._read()
        while self._read():
            pass
        return self.process.returncode

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], 0.1)
        if ready:
            self.seen += os.read(self._master, 65_536)
        return bool(ready)

    def settings(self) -> list[object]:
        return list(termios.tcgetattr(self._slave))

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._slave)
        os.close(self._master)


@pytest.fixture
def screen(kubeconfig: Path) -> Iterator[Screen]:
    opened = Screen("top", "offline", "-l", "live=yes", "--kubeconfig", str(kubeconfig))
    yield opened
    opened.close()


async def report_of_live_node(kubeconfig: Path, report: OfflineReport) -> None:
    async with Client(load_config(str(kubeconfig))) as client:
        names = {node.metadata.name for node in await client.list(NODES)}
        meta = labeled(now(report))
        meta["labels"]["live"] = "yes"
        if "live" not in names:
            await client.create(NODES, {"metadata": {"name": "live"}})
        await client.patch(NODES, "live", {"metadata": meta})


@pytest.fixture
def live_node(kubeconfig: Path) -> Iterator[None]:
    asyncio.run(report_of_live_node(kubeconfig, CALM))
    yield
    asyncio.run(remove_live_node(kubeconfig))


async def remove_live_node(kubeconfig: Path) -> None:
    async with Client(load_config(str(kubeconfig))) as client:
        await client.delete(NODES, "live")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_terminal_table_follows_nodes_and_leaves_it_clean(
    kubeconfig: Path, live_node: None, screen: Screen, number: signal.Signals
) -> None:
    screen.until(b"2.00 (12%)")
    asyncio.run(report_of_live_node(kubeconfig, changed(CALM, online_milli=7_770)))
    screen.until(b"7.77 (48%)")
    screen.process.send_signal(number)
    assert screen.ended() == 0
    assert CLEAN in screen.seen
    after = screen.seen.rpartition(CLEAN)[2]
    assert CURSOR in screen.seen
    assert MOUSE_OFF in screen.seen
    assert not re.sub(rb"\x1b\[\?[0-9]+[hl]", b"", after).strip()
    assert screen.settings() == screen.before


def test_on_a_terminal_once_prints_and_ends(kubeconfig: Path, live_node: None) -> None:
    screen = Screen("top", "offline", "--once", "-l", "live=yes", "--kubeconfig", str(kubeconfig))
    try:
        assert screen.ended() == 0
        assert b"2.00 (12%)" in screen.seen
        assert CLEAN not in screen.seen
    finally:
        screen.close()
