"""Files that ``corewise up`` will write are tried before its cluster starts; paths it prints are absolute."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corewise.cli import main
from corewise_lab.cli import openstack, up
from corewise_lab.cli.folders import REPLACED, locked
from corewise_lab.cli.report import Teller
from corewise_lab.run import RunOptions


@pytest.fixture
def teller(monkeypatch: pytest.MonkeyPatch) -> list[Teller]:
    """Return where the teller of each run arrives that reaches its cluster; none is started."""
    tellers: list[Teller] = []

    def run(_options: RunOptions, teller: Teller) -> None:
        tellers.append(teller)
        raise SystemExit(0)

    monkeypatch.setattr(up, "_run", run)
    return tellers


@pytest.mark.parametrize(
    ("option", "path", "message"),
    [
        ("--kubeconfig-out", "none/kubeconfig", "cannot write none/kubeconfig: there is no directory none"),
        ("--kubeconfig-out", "file/kubeconfig", "cannot write file/kubeconfig: there is no directory file"),
        ("--kubeconfig-out", "/proc/kubeconfig", "cannot write /proc/kubeconfig: No such file"),
        ("--kubeconfig-out", "/dev/full", "cannot write /dev/full: it is not a regular file"),
        ("--kubeconfig-out", "pipe", "cannot write pipe: it is not a regular file"),
        ("--kubeconfig-out", "x" * 300, "File name too long"),
        ("--report", "none/report.html", "cannot write none/report.html: there is no directory none"),
        ("--report", "pipe", "cannot write pipe: it is not a regular file"),
        ("--state", "file/state", "file/state cannot be made: Not a directory"),
        ("--state", "/proc", "/proc cannot be written: No such file"),
        ("--state", "x" * 300, "File name too long"),
        *(
            ("--state", f"own-{name}", f"own-{name}/{name} would be replaced, but own-{name} is not of")
            for name in REPLACED
        ),
        ("--state", "used", "another corewise up uses used"),
    ],
)
def test_unwritable_path_ends_up_before_its_cluster_starts(
    option: str, path: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], teller: list[Teller],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    os.mkfifo("pipe")
    for name in REPLACED:
        own = Path(f"own-{name}", name)
        own.parent.mkdir()
        own.write_text("mine")
    Path("used").mkdir()
    with locked(Path("used")), pytest.raises(SystemExit) as end:
        main(["up", option, path])
    assert (end.value.code, teller) == (5, [])
    assert message in capsys.readouterr().err


def test_run_stopped_at_its_start_can_be_repeated(tmp_path: Path, teller: list[Teller]) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "apiserver.log").touch()
    with pytest.raises(SystemExit):
        main(["up", "--state", str(tmp_path)])
    assert len(teller) == 1


@pytest.mark.parametrize("option", ["--kubeconfig-out", "--state"])
def test_the_kubeconfig_is_named_by_its_absolute_path(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], teller: list[Teller],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["up", option, "kubeconfig" if option == "--kubeconfig-out" else "."])
    teller[0].at_rest("http://127.0.0.1:1")
    assert f"export KUBECONFIG={tmp_path}/kubeconfig\n" in capsys.readouterr().err


def test_existing_file_stays_untouched_until_cluster_is_up(tmp_path: Path, teller: list[Teller]) -> None:
    old = tmp_path / "kubeconfig"
    old.write_text("of a former run")
    with pytest.raises(SystemExit):
        main(["up", "--kubeconfig-out", str(old)])
    assert len(teller) == 1
    assert old.read_text() == "of a former run"
    assert list(tmp_path.iterdir()) == [old]


def test_cloud_folder_is_named_by_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with openstack._folder(Path("state")) as folder:
        assert folder == tmp_path / "state"


def test_missing_temporary_directory_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], teller: list[Teller]
) -> None:
    monkeypatch.setenv("TMPDIR", "/proc")  # no directory can be made in it
    monkeypatch.setattr("tempfile.tempdir", "/proc")
    with pytest.raises(SystemExit) as end:
        main(["up"])
    assert (end.value.code, teller) == (5, [])
    assert "cannot make a temporary directory: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("scenario", ["openstack", "outage"])
def test_scenarios_of_their_own_write_no_page(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["up", "--scenario", scenario, "--report", str(tmp_path / "report.html")])
    assert end.value.code == 2
    assert f"--scenario {scenario} goes with" in capsys.readouterr().err
