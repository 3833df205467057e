"""What kubelet's CPU manager says about pinned pods, and what is believed while it cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.agent.kubelet import (
    NO_POLICY,
    STATE_FILE,
    UNKNOWN_POLICY,
    cpu_manager_file,
    parse_state,
)
from corewise.topology import CPUSet

STATIC = {
    "policyName": "static",
    "defaultCpuSet": "0,4-7",
    "entries": {"uid-1": {"main": "1-3", "side": ""}, "uid-2": {"main": ""}},
    "checksum": 1,
}


def written(root: Path, content: str | bytes) -> None:
    path = root / STATE_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    following = path.with_name("next")
    following.write_bytes(content.encode() if isinstance(content, str) else content)
    following.replace(path)


def test_pods_with_exclusive_cpus_are_pinned() -> None:
    manager = parse_state(json.dumps(STATIC).encode())
    assert (manager.policy, manager.pinned) == ("static", frozenset({"uid-1"}))
    assert manager.exclusive == {"uid-1": CPUSet.parse("1-3")}


def test_cpus_of_a_whole_pod_are_exclusive_too() -> None:
    """As kubelet writes them with PodLevelResourceManagers, beside what earlier versions read."""
    of_pods = {"uid-1": {"cpuSet": "1-5"}, "uid-2": {"cpuSet": "6-7"}, "uid-3": {"cpuSet": ""}}
    manager = parse_state(json.dumps({**STATIC, "podEntries": of_pods, "data": "{}"}).encode())
    assert manager.exclusive == {"uid-1": CPUSet.parse("1-5"), "uid-2": CPUSet.parse("6-7")}
    assert manager.pinned == frozenset(manager.exclusive)


def test_without_the_static_policy_nobody_is_pinned() -> None:
    text = json.dumps({"policyName": "none", "defaultCpuSet": "", "checksum": 1})
    assert parse_state(text.encode()) == NO_POLICY


@pytest.mark.parametrize(
    "text", ["", "[", '{"policyName":1}', '{"policyName":"static","entries":{"u":{"c":"x"}}}']
)
def test_what_kubelet_would_not_write_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_state(text.encode())


@given(st.binary(max_size=200))
def test_no_content_is_a_crash(text: bytes) -> None:
    try:
        parse_state(text)
    except ValueError:
        return


def test_file_is_followed_and_bad_content_changes_nothing(tmp_path: Path) -> None:
    file = cpu_manager_file(tmp_path)
    assert file.read() == NO_POLICY
    written(tmp_path, json.dumps(STATIC))
    assert file.read().pinned == {"uid-1"}
    written(tmp_path, "half a fi")
    assert file.read().pinned == {"uid-1"}
    assert str(tmp_path / STATE_FILE) in str(file.problem)
    written(tmp_path, json.dumps({**STATIC, "entries": {}}))
    assert file.read().pinned == frozenset()
    assert str(file.problem) == "None"
    (tmp_path / STATE_FILE).unlink()
    assert file.read() == NO_POLICY


def test_file_never_readable_leaves_pinning_unknown(tmp_path: Path) -> None:
    written(tmp_path, b"\xff")
    file = cpu_manager_file(tmp_path)
    assert file.read() == UNKNOWN_POLICY
    assert not file.read().is_known
