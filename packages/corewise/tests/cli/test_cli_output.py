"""One description of rows prints in every form."""

import csv
import io
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from corewise.cli import output
from corewise.cli.errors import ExitCode
from corewise.cli.output import Form, Screen
from corewise.views.machine_kinds import short_model
from corewise.views.tables import CellSeverity, Column, Listing
from corewise.views.text import count, cpus, gibibytes, percent


@dataclass(frozen=True)
class Row:
    name: str
    cpu: int
    state: str = ""


COLUMNS: list[Column[Row]] = [
    Column("NAME", lambda r: r.name),
    Column("CPU", lambda r: cpus(r.cpu), right=True),
    Column("UID", lambda r: "u-" + r.name, wide=True),
    Column("STATE", lambda r: r.state, severity=lambda r: CellSeverity.ERROR if r.state else None),
]


def listing(*rows: Row) -> Listing[Row]:
    records = [
        {"name": r.name, "cpuMilli": r.cpu, "facts": {"model": "M", "flags": ["a", "b"]}} for r in rows
    ]
    total = Row("*", sum(r.cpu for r in rows))
    return Listing(COLUMNS, rows, records, lambda r: f"node/{r.name}", {"nodes": len(rows)}, [total])


TWO = listing(Row("n1", 48000), Row("node-2", 79200, "UnknownCPUModel"))


def test_table_aligns_numbers_right_without_trailing_blanks() -> None:
    assert output.render(TWO, Form.TABLE).splitlines() == [
        "NAME      CPU  STATE",
        "n1         48",
        "node-2   79.2  UnknownCPUModel",
        "*       127.2",
    ]


COLUMNS_OF_A_SCREEN: list[Column[Row]] = [
    Column("NAME", lambda r: r.name),
    Column("MODEL", lambda r: "model " * 4 + r.name, priority=2, shrink=8),
    Column("CPU OFF", lambda r: str(r.cpu), right=True, priority=1),
    Column("ON", lambda r: str(r.cpu), right=True, priority=1),
    Column("STATE", lambda r: r.state, shrink=6, severity=lambda _: CellSeverity.ERROR),
]
ROWS = [Row("n1", 48000, "Healthy"), Row("node-2", 79200, "UnknownCPUModel")]


def fitted(width: int | None) -> list[str]:
    return output.table(COLUMNS_OF_A_SCREEN, ROWS, screen=Screen(width)).splitlines()


def test_table_on_a_wide_screen_is_complete() -> None:
    assert fitted(None) == fitted(1000) == fitted(71)
    assert fitted(71)[0] == "NAME    MODEL                           CPU OFF     ON  STATE"


def test_table_too_wide_cuts_texts_and_says_so() -> None:
    assert fitted(50) == [
        "NAME    MODEL               CPU OFF     ON  STATE",
        "n1      model model model…    48000  48000  Healt…",
        "node-2  model model model…    79200  79200  Unkno…",
        "texts cut: MODEL, STATE (-o json, or a terminal 71",
        "columns wide, shows all)",
    ]


def test_narrow_table_drops_columns_of_the_highest_priority() -> None:
    assert fitted(36)[:3] == [
        "NAME    CPU OFF     ON  STATE",
        "n1        48000  48000  Healthy",
        "node-2    79200  79200  UnknownCPUM…",
    ]
    assert " ".join(fitted(36)[3:]).startswith("columns left out: MODEL; texts cut: STATE (-o json")


def test_columns_of_one_priority_are_left_out_together() -> None:
    assert fitted(28)[0] == "NAME    STATE"
    assert " ".join(fitted(28)[3:]).startswith("columns left out: MODEL, CPU OFF, ON (-o json")


def test_a_name_is_never_cut() -> None:
    assert [line.split()[0] for line in fitted(10)[:3]] == ["NAME", "n1", "node-2"]


@given(st.integers(1, 90), st.lists(st.text("abc", max_size=30), max_size=4))
def test_table_fits_the_screen_unless_least_columns_exceed(width: int, states: list[str]) -> None:
    rows = [Row(f"n{place}", 48000, state) for place, state in enumerate(states)]
    lines = output.table(COLUMNS_OF_A_SCREEN, rows, screen=Screen(width)).splitlines()
    assert max(map(len, lines[: len(rows) + 1])) <= max(width, len("NAME  STATEX"))


def test_wide_is_never_cut() -> None:
    narrow = output.render(TWO, Form.WIDE, screen=Screen(10))
    assert narrow == output.render(TWO, Form.WIDE, screen=Screen())


def test_a_terminal_is_as_wide_as_columns_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "91")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Screen.of_stdout() == Screen(91, color=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert Screen.of_stdout() == Screen(91, color=False)


def test_columns_is_nothing_to_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert Screen.of_stdout().width is None


def test_wide_adds_columns() -> None:
    assert "u-n1" in output.render(TWO, Form.WIDE)


def test_color_marks_severity_only_and_only_when_wanted() -> None:
    assert "\x1b[31mUnknownCPUModel" in output.render(TWO, Form.TABLE, screen=Screen(color=True))
    assert "\x1b" not in output.render(TWO, Form.TABLE)


def test_json_and_yaml_hold_equal_items_and_totals() -> None:
    from_json = json.loads(output.render(TWO, Form.JSON))
    assert from_json == yaml.safe_load(output.render(TWO, Form.YAML))
    assert from_json["items"][1]["cpuMilli"] == 79200
    assert from_json["total"] == {"nodes": 2}


def test_csv_flattens_records() -> None:
    rows = list(csv.DictReader(io.StringIO(output.render(TWO, Form.CSV))))
    assert rows[0] == {"name": "n1", "cpuMilli": "48000", "facts.model": "M", "facts.flags": "a b"}


def test_name_prints_what_kubectl_takes() -> None:
    assert output.render(TWO, Form.NAME) == "node/n1\nnode/node-2\n"


def test_an_empty_listing_prints_in_every_form() -> None:
    assert {form: output.render(listing(), form) for form in Form} == {
        Form.TABLE: "NAME  CPU  STATE\n*       0\n",
        Form.WIDE: "NAME  CPU  UID  STATE\n*       0  u-*\n",
        Form.JSON: '{\n  "items": [],\n  "total": {\n    "nodes": 0\n  }\n}\n',
        Form.YAML: "items: []\ntotal:\n  nodes: 0\n",
        Form.CSV: "",
        Form.NAME: "",
    }


@pytest.mark.parametrize(
    ("milli", "text"),
    [(48000, "48"), (79200, "79.2"), (250, "0.25"), (1, "0.001"), (0, "0"), (-500, "-0.5"), (None, "-")],
)
def test_cpus_are_printed_exactly(milli: int | None, text: str) -> None:
    assert cpus(milli) == text


@given(st.integers(-(10**9), 10**9))
def test_printed_cpus_read_back_as_the_same_amount(milli: int) -> None:
    assert round(float(cpus(milli)) * 1000) == milli


def test_percent_and_gibibytes_round_down_and_tolerate_zero() -> None:
    assert percent(58100, 79200) == " (73%)"
    assert not percent(1, 0)
    assert gibibytes(2**30 + 2**29 - 1) == "1.4"
    assert gibibytes(None) == "-"


def test_counts_are_said_in_singular_and_plural() -> None:
    assert count(1, "node") == "1 node"
    assert count(0, "node") == "0 nodes"


def test_a_pipe_has_neither_color_nor_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert output.Screen.of_stdout() == output.Screen()


@pytest.mark.parametrize("arguments", [["topology"], ["--help"], ["topology", "-o", "json"]])
def test_full_disk_on_stdout_prints_one_line_only(arguments: list[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "corewise", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.stderr == "corewise: stdout cannot be written: No space left on device\n"
    assert done.returncode == ExitCode.OUTPUT


INTEL = "Intel(R) Xeon(R) Platinum 8369B CPU @ 2.70GHz"


def test_narrow_table_shortens_models_before_it_drops_columns() -> None:
    columns: list[Column[Row]] = [
        Column("NAME", lambda r: r.name),
        Column("MODEL", lambda _: INTEL, priority=2, shrink=6, shorter=short_model),
        Column("CPU", lambda r: str(r.cpu), right=True),
    ]

    def shown(width: int | None) -> list[str]:
        return output.table(columns, [Row("n1", 48000)], screen=Screen(width)).splitlines()

    assert shown(None)[1] == f"n1    {INTEL}  48000"
    assert shown(30) == ["NAME  MODEL         CPU", "n1    Xeon 8369B  48000"]
    assert shown(20)[:2] == ["NAME  MODEL      CPU", "n1    Xeon 8…  48000"]
    assert shown(16)[:2] == ["NAME    CPU", "n1    48000"]
