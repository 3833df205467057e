"""Who has used CPU time is found whatever a process calls itself, and however short it lives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.kernel.host_files import HostFiles
from corewise.kernel.usage import ProcessTime, ProcessUsage, busiest, process_time, read_processes

AFTER_NAME = "S 1 7 7 0 -1 4194560 100 0 0 0 30 12 0 0 20 0 1 0 5 100 3"


@pytest.mark.parametrize("name", ["sh", "a b", "x) S 9 9 (y", ")", "", "\N{GRINNING FACE}"])
def test_a_name_may_contain_anything(name: str) -> None:
    assert process_time(f"7 ({name}) {AFTER_NAME}") == ProcessTime(name, 1, 42)


@given(st.text())
def test_non_process_is_an_error_of_one_kind(text: str) -> None:
    try:
        process_time(text)
    except ValueError:
        return


def test_this_process_is_found_on_this_machine() -> None:
    found = read_processes(HostFiles())[os.getpid()]
    assert found.parent == os.getppid()
    assert found.used >= 0


def test_processes_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    for pid, text in ((1, f"1 (init) {AFTER_NAME}"), (2, "nonsense")):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/stat").write_text(text)
    (tmp_path / "proc/3").mkdir()
    assert list(read_processes(HostFiles(tmp_path))) == [1]


def test_busiest_come_first_excluding_ourselves_and_children() -> None:
    before = {1: ProcessTime("old", 0, 100), 2: ProcessTime("idle", 1, 5), 3: ProcessTime("ended", 1, 9)}
    after = {
        1: ProcessTime("old", 0, 130),
        2: ProcessTime("idle", 1, 5),
        4: ProcessTime("new", 1, 70),
        5: ProcessTime("ourselves", 1, 900),
        6: ProcessTime("our child", 5, 900),
    }
    assert busiest(before, after, own={5}) == [ProcessUsage(4, "new", 70), ProcessUsage(1, "old", 30)]
    assert busiest(before, after, own={5}, most=1) == [ProcessUsage(4, "new", 70)]
