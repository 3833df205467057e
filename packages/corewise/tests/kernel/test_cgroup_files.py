"""Files of cgroups are reached safely, and every failure names path and errno."""

from __future__ import annotations

import errno
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import Layout, Version, find_layout
from corewise.kernel.cgroups.resources import (
    Bandwidth,
    read_bandwidth,
    read_burst,
    read_cpuset,
    read_effective_cpuset,
    read_usage,
    read_weight,
)
from corewise.kernel.errors import (
    Busy,
    KernelError,
    Malformed,
    Missing,
    ReadOnly,
    Unreadable,
    UnsafeName,
    ValueRefused,
    Vanished,
    reading_error,
    writing_error,
)
from corewise.quantities import Microseconds
from corewise.topology import CPUSet
from kernel.cgroup_trees import plain_tree
from kernel.cgroup_writes import write_burst, write_cpuset, write_quota, write_weight

CGROUP = "/kubepods/burstable/podx/c"
MOUNT = {Version.V1: "sys/fs/cgroup/cpu", Version.V2: "sys/fs/cgroup"}
QUOTA = {Version.V1: "cpu.cfs_quota_us", Version.V2: "cpu.max"}


def tree(root: Path, version: Version) -> CgroupFiles:
    plain_tree(root, version, [CGROUP])
    return CgroupFiles(find_layout(root))


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def directory(root: Path, version: Version, cgroup: str = CGROUP) -> Path:
    return root / MOUNT[version] / cgroup.lstrip("/")


@pytest.fixture(params=Version, ids=lambda version: version.value)
def version(request: pytest.FixtureRequest) -> Version:
    return Version(request.param)


def test_empty_value_is_written_as_an_empty_line(
    tmp_path: Path,
) -> None:
    files = tree(tmp_path, Version.V2)
    without_size = directory(tmp_path, Version.V2) / "cpuset.cpus"
    without_size.write_text("")
    files.write(CGROUP, "cpuset.cpus", "")
    assert without_size.read_text() == "\n"


@pytest.mark.parametrize("file", ["cpuset.cpus", "cpuset.mems"])
def test_empty_set_for_processes_becomes_the_parents_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """kernel/cgroup/cpuset.c, validate_change: ENOSPC on v2 too."""
    files = tree(tmp_path, Version.V2)
    without_size = directory(tmp_path, Version.V2) / file
    without_size.write_text("")
    (without_size.parent.parent / f"{file}.effective").write_text("0-3\n")

    def populated(descriptor: int, data: bytes, write: Callable[[int, bytes], int] = os.write) -> int:
        if data == b"\n":
            raise OSError(errno.ENOSPC, "")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", populated)
    files.write(CGROUP, file, "")
    assert without_size.read_text() == "0-3"
    (without_size.parent.parent / f"{file}.effective").unlink()
    without_size.write_text("")
    with pytest.raises(Missing):
        files.write(CGROUP, file, "")


def test_a_quota_is_written_and_the_period_stays(tmp_path: Path, version: Version) -> None:
    files = tree(tmp_path, version)
    assert read_bandwidth(files, CGROUP) == Bandwidth(None, Microseconds(100_000))
    write_quota(files, CGROUP, Microseconds(66_667))
    assert read_bandwidth(files, CGROUP) == Bandwidth(Microseconds(66_667), Microseconds(100_000))
    write_quota(files, CGROUP, Microseconds(5_000))
    write_quota(files, CGROUP, None)
    assert read_bandwidth(files, CGROUP) == Bandwidth(None, Microseconds(100_000))


def test_burst_weight_and_cpuset_come_back_as_written(tmp_path: Path, version: Version) -> None:
    files = tree(tmp_path, version)
    cpuset = tmp_path / ("sys/fs/cgroup/cpuset" if version is Version.V1 else MOUNT[version]) / CGROUP[1:]
    cpuset.mkdir(parents=True, exist_ok=True)
    effective = "cpuset.effective_cpus" if version is Version.V1 else "cpuset.cpus.effective"
    (cpuset / "cpuset.cpus").write_text("\n")
    (cpuset / effective).write_text("0-3,8-11\n")
    write_burst(files, CGROUP, Microseconds(700))
    write_weight(files, CGROUP, 512)
    assert not read_cpuset(files, CGROUP)
    write_cpuset(files, CGROUP, CPUSet.parse("0-1,4"))
    assert (read_burst(files, CGROUP), read_weight(files, CGROUP)) == (700, 512)
    assert str(read_cpuset(files, CGROUP)) == "0-1,4"
    assert str(read_effective_cpuset(files, CGROUP)) == "0-3,8-11"


def test_usage_is_in_nanoseconds_on_both_versions(tmp_path: Path, version: Version) -> None:
    files = tree(tmp_path, version)
    if version is Version.V1:
        usage = tmp_path / "sys/fs/cgroup/cpuacct" / CGROUP[1:]
        usage.mkdir(parents=True)
        (usage / "cpuacct.usage").write_text("1234567000\n")
    else:
        (directory(tmp_path, version) / "cpu.stat").write_text("usage_usec 1234567\nuser_usec 1\n")
    assert read_usage(files, CGROUP) == 1_234_567_000


def test_missing_burst_support_differs_from_a_removed_cgroup(tmp_path: Path, version: Version) -> None:
    files = tree(tmp_path, version)
    burst = "cpu.cfs_burst_us" if version is Version.V1 else "cpu.max.burst"
    (directory(tmp_path, version) / burst).unlink()
    read_bandwidth(files, CGROUP)
    assert read_burst(files, CGROUP) is None
    directory(tmp_path, version).rename(tmp_path / "gone")
    (tmp_path / "gone" / QUOTA[version]).unlink()
    with pytest.raises(Vanished):
        read_burst(files, CGROUP)


GARBAGE = [
    "",
    "abc",
    "-2",
    "1 2 3",
    "max",
    "100000 0",
    "1e5 100000",
    "\u0661\u0660\u0660 100000",
    "-1 100000",
    "9" * 40,
]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_content_no_kernel_writes_is_refused_with_path(tmp_path: Path, garbage: str) -> None:
    for version in Version:
        root = tmp_path / version.value
        files = tree(root, version)
        (directory(root, version) / QUOTA[version]).write_text(garbage, encoding="utf-8")
        with pytest.raises(Malformed, match=QUOTA[version]):
            read_bandwidth(files, CGROUP)


@given(st.text(max_size=30))
def test_any_content_gives_a_bandwidth_or_an_error(text: str) -> None:
    class Fixed:
        version = Version.V2

        def read(self, cgroup: str, file: str) -> str:
            return text

        def write(self, cgroup: str, file: str, text: str) -> None: ...

        def exists(self, cgroup: str) -> bool:
            return True

        def children(self, cgroup: str) -> tuple[str, ...]:
            return ()

    try:
        bandwidth = read_bandwidth(Fixed(), CGROUP)
    except Malformed:
        return
    assert bandwidth.period > 0
    assert bandwidth.quota is None or bandwidth.quota >= 0


@pytest.mark.parametrize(
    "cgroup", ["", "a", "/..", "/kubepods/../..", "/kubepods/./x", "//kubepods/..//", "/a\0b", "/kubepods//x"]
)
def test_path_that_could_leave_the_hierarchy_is_refused(tmp_path: Path, cgroup: str) -> None:
    files = tree(tmp_path, Version.V2)
    with pytest.raises(UnsafeName):
        files.read(cgroup, "cpu.max")
    with pytest.raises(UnsafeName):
        files.write(cgroup, "cpu.max", "1000")
    assert not files.exists(cgroup)


def test_a_symbolic_link_is_never_followed(tmp_path: Path, version: Version) -> None:
    files = tree(tmp_path, version)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / QUOTA[version]).write_text("max 100000\n")
    (directory(tmp_path, version, "/kubepods/link")).symlink_to(outside)
    (directory(tmp_path, version) / QUOTA[version]).unlink()
    (directory(tmp_path, version) / QUOTA[version]).symlink_to(outside / QUOTA[version])
    for cgroup in ("/kubepods/link", CGROUP):
        with pytest.raises(UnsafeName):
            files.read(cgroup, QUOTA[version])
        with pytest.raises(UnsafeName):
            write_quota(files, cgroup, Microseconds(5000))
    assert (outside / QUOTA[version]).read_text() == "max 100000\n"


def test_absent_cgroup_is_missing_and_removed_one_vanished(tmp_path: Path, version: Version) -> None:
    files = tree(tmp_path, version)
    with pytest.raises(Missing, match="ENOENT") as caught:
        files.read("/kubepods/none", QUOTA[version])
    assert not isinstance(caught.value, Vanished)
    files.read(CGROUP, QUOTA[version])
    for path in directory(tmp_path, version).iterdir():
        path.unlink()
    directory(tmp_path, version).rmdir()
    with pytest.raises(Vanished, match="ENODEV"):
        files.read(CGROUP, QUOTA[version])
    with pytest.raises(Missing):
        write_quota(files, CGROUP, Microseconds(5000))


def test_recreated_cgroup_of_the_same_name_is_found(tmp_path: Path, version: Version) -> None:
    files = tree(tmp_path, version)
    files.read(CGROUP, QUOTA[version])
    old = directory(tmp_path, version)
    old.rename(tmp_path / "old")
    (tmp_path / "old" / QUOTA[version]).unlink()
    plain_tree(tmp_path, version, [CGROUP])
    write_quota(files, CGROUP, Microseconds(5000))
    assert (old / QUOTA[version]).read_text().startswith("5000")


def test_children_are_listed_sorted_without_links_and_files(tmp_path: Path, version: Version) -> None:
    files = tree(tmp_path, version)
    plain_tree(tmp_path, version, ["/kubepods/b", "/kubepods/a"])
    directory(tmp_path, version, "/kubepods/link").symlink_to("a")
    assert files.children("/kubepods") == ("/kubepods/a", "/kubepods/b", "/kubepods/burstable")
    assert "/kubepods" in files.children("/")
    with pytest.raises(Missing):
        files.children("/none")


def test_descriptors_are_kept_within_bounds_and_finally_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (7, 7))
    many = [f"/kubepods/pod{number}" for number in range(20)]
    plain_tree(tmp_path, Version.V2, many)
    before = open_descriptors()
    with CgroupFiles(find_layout(tmp_path)) as files:
        for cgroup in many * 2:
            read_bandwidth(files, cgroup)
        assert open_descriptors() - before == 5
    assert open_descriptors() == before


def test_descriptors_of_removed_unread_cgroups_are_closed(tmp_path: Path, version: Version) -> None:
    gone, stays = "/kubepods/gone", "/kubepods/stays (deleted) not"
    plain_tree(tmp_path, version, [gone, stays])
    before = open_descriptors()
    with CgroupFiles(find_layout(tmp_path)) as files:
        for cgroup in (gone, stays):
            read_bandwidth(files, cgroup)
        shutil.rmtree(directory(tmp_path, version, gone))
        assert not files.exists(gone)
        files.close_vanished()
        read_bandwidth(files, stays)
        files.close_vanished()
        assert open_descriptors() - before == 1
        files.close_vanished()
        assert open_descriptors() - before == 1
        read_bandwidth(files, stays)
        with pytest.raises(Missing):
            read_bandwidth(files, gone)


def test_recently_used_cgroups_are_not_checked_for_removal(
    tmp_path: Path, version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_tree(tmp_path, version, [CGROUP])
    asked: list[str] = []
    with CgroupFiles(find_layout(tmp_path)) as files:
        read_bandwidth(files, CGROUP)
        files.read(CGROUP, "cpuset.cpus")
        files.close_vanished()

        def readlink(path: str) -> str:
            asked.append(path)
            return ""

        monkeypatch.setattr(os, "readlink", readlink)
        read_bandwidth(files, CGROUP)
        files.close_vanished()
        assert not asked
        files.close_vanished()
        assert asked


def test_a_controller_that_is_not_mounted_is_missing(tmp_path: Path) -> None:
    layout = Layout(Version.V1, {"cpu": tmp_path})
    with pytest.raises(Missing, match="cpuacct controller"):
        CgroupFiles(layout).read("/", "cpuacct.usage")


READING = {
    errno.ENOENT: Missing,
    errno.ENODEV: Vanished,
    errno.EACCES: Unreadable,
    errno.EIO: Unreadable,
    errno.ELOOP: UnsafeName,
    errno.EBUSY: Busy,
}
WRITING = {
    errno.EINVAL: ValueRefused,
    errno.ERANGE: ValueRefused,
    errno.EROFS: ReadOnly,
    errno.EACCES: ReadOnly,
    errno.EPERM: ReadOnly,
    errno.EBUSY: Busy,
    errno.ENODEV: Vanished,
    errno.ENOSPC: Unreadable,
}


@pytest.mark.parametrize(("code", "kind"), READING.items())
def test_read_error_has_its_kind_path_and_errno(code: int, kind: type[KernelError]) -> None:
    error = reading_error("/x/cpu.max", OSError(code, "any"))
    assert type(error) is kind
    assert (error.path, error.code) == ("/x/cpu.max", code)
    assert errno.errorcode[code] in str(error)


@pytest.mark.parametrize(("code", "kind"), WRITING.items())
def test_write_error_has_kind_path_errno_and_value(code: int, kind: type[KernelError]) -> None:
    error = writing_error("/x/cpu.max", OSError(code, "any"), value="66667")
    assert type(error) is kind
    assert errno.errorcode[code] in str(error)
    assert "66667" in str(error)


def test_a_tree_that_is_read_only_says_so(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root writes files without permission; the real kernel's test covers a read-only mount")
    files = tree(tmp_path, Version.V2)
    (directory(tmp_path, Version.V2) / "cpu.max").chmod(0o400)
    with pytest.raises(ReadOnly):
        write_quota(files, CGROUP, Microseconds(5000))


@pytest.mark.parametrize(
    ("child", "parent", "fits"),
    [
        ((50_000, 100_000), (50_000, 100_000), True),
        ((50_001, 100_000), (50_000, 100_000), False),
        ((25_000, 50_000), (50_000, 100_000), True),
        ((25_001, 50_000), (50_000, 100_000), False),
        ((50_000, 100_000), (None, 100_000), True),
        ((None, 100_000), (50_000, 100_000), False),
        ((None, 100_000), (None, 100_000), True),
    ],
)
def test_bandwidths_compare_as_shares_of_their_periods(
    child: tuple[int | None, int], parent: tuple[int | None, int], fits: bool
) -> None:
    def bandwidth(pair: tuple[int | None, int]) -> Bandwidth:
        return Bandwidth(None if pair[0] is None else Microseconds(pair[0]), Microseconds(pair[1]))

    assert bandwidth(child).fits_in(bandwidth(parent)) is fits


@given(st.integers(1000, 10**7), st.integers(1000, 10**6), st.integers(1000, 10**6))
def test_a_quota_taken_to_another_period_still_fits(quota: int, period: int, other: int) -> None:
    bandwidth = Bandwidth(Microseconds(quota), Microseconds(period))
    taken = bandwidth.quota_over(Microseconds(other))
    assert Bandwidth(taken, Microseconds(other)).fits_in(bandwidth)
