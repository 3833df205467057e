"""``corewise audit`` tells of weights, CPU sets and memory limits; ``corewise agent restore`` undoes them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from corewise.actions import Setting, SettingOwner
from corewise.agent.options import STATE_DIR
from corewise.cli import corewise
from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import Version, find_layout
from corewise.kernel.host_files import BOOT_ID
from corewise.kernel.writing.journal import Journal
from corewise.kernel.writing.quota_writer import QuotaWriter
from corewise.kernel.writing.setting_claims import setting_file
from corewise.kernel.writing.setting_writer import SettingWriter
from kernel.cgroup_trees import bound, plain_tree, setting

POD = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podx.slice"
VERSIONS = pytest.mark.parametrize("version", Version, ids=lambda version: version.value)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(corewise, arguments)


def written(root: Path, version: Version) -> CgroupFiles:
    """A machine on which an agent has bounded and set something; the agent is gone."""
    (root / BOOT_ID).parent.mkdir(parents=True)
    (root / BOOT_ID).write_text("b\n")
    plain_tree(root, version, [POD])
    files = CgroupFiles(find_layout(root))
    with Journal.open(root / STATE_DIR, boot="b", now=time.time) as log:
        QuotaWriter(files, log, now=time.time).apply([bound(POD, 50_000)])
        actions = [
            setting(POD, Setting.CPU_WEIGHT, "20", why="batch-cpu request 500"),
            setting(POD, Setting.CPUSET, "1-3", owner=SettingOwner.PINNING),
            setting(POD, Setting.MEMORY_LIMIT, str(1 << 30)),
        ]
        settings = SettingWriter(files, log, now=time.time)
        assert settings.apply(actions).failed == {}
    return files


def shown(files: CgroupFiles) -> dict[Setting, str]:
    return {each: files.read(POD, setting_file(files.version, each)) for each in Setting}


@VERSIONS
def test_restore_puts_settings_back_as_it_does_quotas(tmp_path: Path, version: Version) -> None:
    plain_tree(tmp_path / "fresh", version, [POD])
    fresh = shown(CgroupFiles(find_layout(tmp_path / "fresh")))
    files = written(tmp_path, version)
    result = call("agent", "restore", "--root", str(tmp_path))
    assert result.exit_code == 0, result.output
    weight = setting_file(version, Setting.CPU_WEIGHT)
    assert f"{POD} {weight} 20 -> {fresh[Setting.CPU_WEIGHT]}\n" in result.output
    assert "4 writes, 0 failures" in result.output
    if version is Version.V1:
        fresh[Setting.MEMORY_LIMIT] = "-1"
    assert shown(files) == fresh
    assert "0 writes, 0 failures" in call("agent", "restore", "--root", str(tmp_path)).output


def audited(root: Path, *options: str) -> list[dict[str, Any]]:
    result = call("audit", "--root", str(root), "-o", "json", *options)
    assert result.exit_code == 0, result.output
    items: list[dict[str, Any]] = json.loads(result.stdout)["items"]
    return items


@VERSIONS
def test_audit_reports_settings_as_it_reports_quotas(tmp_path: Path, version: Version) -> None:
    written(tmp_path, version)
    weight = setting_file(version, Setting.CPU_WEIGHT)
    entry = next(entry for entry in audited(tmp_path) if entry["file"] == weight)
    assert (entry["cgroup"], entry["new"], entry["why"]) == (POD, "20", "batch-cpu request 500")
    assert len(audited(tmp_path)) == 4
    assert len(audited(tmp_path, "--reason", "BatchLimitApplied")) == 3
    held = {entry.get("file", ""): entry["base"] for entry in audited(tmp_path, "--kind", "held")}
    assert set(held) == {"", weight, "cpuset.cpus", setting_file(version, Setting.MEMORY_LIMIT)}
    table = call("audit", "--root", str(tmp_path), "--kind", "held").output
    assert f"will be put back: {held[weight]!r}" in table
    call("agent", "restore", "--root", str(tmp_path))
    assert len(audited(tmp_path, "--kind", "released")) == 4
    assert len(audited(tmp_path, "--reason", "SettingRestored")) == 3


def test_audit_knows_every_reason_and_no_other(tmp_path: Path) -> None:
    written(tmp_path, Version.V2)
    assert audited(tmp_path, "--reason", "SuppressionSteppedDown") == []
    assert call("audit", "--root", str(tmp_path), "--reason", "Nonsense").exit_code == 2


def test_audit_and_restore_skip_and_locate_damaged_lines(tmp_path: Path) -> None:
    written(tmp_path, Version.V2)
    journal = tmp_path / STATE_DIR / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if b"batch-cpu" in line)
    lines[first] = lines[first].replace(b"batch-cpu", b"batch-\xff\xfe")
    lines.append(b'{"kind":"opened","time":1e300,"boot":"b"}\n')
    lines.append(b'{"kind":"wrote","more":' + b"[" * 100_000 + b"\n")
    journal.write_bytes(b"".join(lines))
    place = f"the first is {journal}, line {first + 1}: not UTF-8"
    audited = call("audit", "--root", str(tmp_path), "--kind", "wrote", "--kind", "opened")
    assert audited.exit_code == 0, audited.output
    assert f"3 lines of the journal cannot be read and are skipped; {place}" in audited.output
    restored = call("agent", "restore", "--root", str(tmp_path))
    assert restored.exit_code == 0, restored.output
    assert f"3 lines of the journal cannot be read and are skipped; {place}" in restored.output
    assert "4 writes, 0 failures" in restored.output
