"""Pods and containers have the cgroups that kubelet and the runtime give them, and never any other."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import (
    Driver,
    PodCgroups,
    QOSClass,
    Version,
    find_layout,
    find_pod_cgroups,
)
from corewise.kernel.errors import LayoutUnknown, UnsafeName
from kernel.cgroup_trees import StoredCgroups, plain_tree

UID = "5b9eb9ae-7e5d-4e1c-a7d5-22ff2d4c9f6a"
ESCAPED = UID.replace("-", "_")
ID = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
SYSTEMD = PodCgroups(Driver.SYSTEMD, "/kubepods.slice")
CGROUPFS = PodCgroups(Driver.CGROUPFS, "/kubepods")
KIND = PodCgroups(Driver.SYSTEMD, "/kubelet.slice/kubelet-kubepods.slice")

GUARANTEED, BURSTABLE, BEST_EFFORT = QOSClass.GUARANTEED, QOSClass.BURSTABLE, QOSClass.BEST_EFFORT


@pytest.mark.parametrize(
    ("cgroups", "qos", "path"),
    [
        (SYSTEMD, GUARANTEED, f"/kubepods.slice/kubepods-pod{ESCAPED}.slice"),
        (
            SYSTEMD,
            BURSTABLE,
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{ESCAPED}.slice",
        ),
        (
            SYSTEMD,
            BEST_EFFORT,
            f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{ESCAPED}.slice",
        ),
        (
            KIND,
            BURSTABLE,
            f"{KIND.kubepods}/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{ESCAPED}.slice",
        ),
        (CGROUPFS, GUARANTEED, f"/kubepods/pod{UID}"),
        (CGROUPFS, BURSTABLE, f"/kubepods/burstable/pod{UID}"),
        (CGROUPFS, BEST_EFFORT, f"/kubepods/besteffort/pod{UID}"),
    ],
)
def test_pods_sit_under_class_guaranteed_ones_under_kubepods(
    cgroups: PodCgroups, qos: QOSClass, path: str
) -> None:
    assert cgroups.pod(UID, qos) == path


@pytest.mark.parametrize(
    ("cgroups", "container", "name"),
    [
        (SYSTEMD, f"containerd://{ID}", f"cri-containerd-{ID}.scope"),
        (SYSTEMD, f"cri-o://{ID}", f"crio-{ID}.scope"),
        (SYSTEMD, f"docker://{ID}", f"docker-{ID}.scope"),
        (CGROUPFS, f"containerd://{ID}", ID),
        (CGROUPFS, f"cri-o://{ID}", f"crio-{ID}"),
        (CGROUPFS, f"docker://{ID}", ID),
    ],
)
def test_container_is_named_as_its_runtime_does(cgroups: PodCgroups, container: str, name: str) -> None:
    expected = f"{cgroups.pod(UID, BURSTABLE)}/{name}"
    assert cgroups.container(UID, BURSTABLE, container) == expected


def test_offline_pods_share_the_cgroup_of_their_class() -> None:
    assert SYSTEMD.qos(BEST_EFFORT) == "/kubepods.slice/kubepods-besteffort.slice"
    assert CGROUPFS.qos(BEST_EFFORT) == "/kubepods/besteffort"
    assert SYSTEMD.qos(GUARANTEED) == "/kubepods.slice"


@pytest.mark.parametrize(
    "bad", ["", "..", "a/../b", "a/b", "a..b", "-a", ".a", "a\0", "a b", "a\n", "ä", "x" * 300, "%2e%2e"]
)
def test_malformed_uid_or_id_is_refused(bad: str) -> None:
    for cgroups in (SYSTEMD, CGROUPFS):
        with pytest.raises(UnsafeName, match="not plain"):
            cgroups.pod(bad, BURSTABLE)
        with pytest.raises(UnsafeName, match="not plain"):
            cgroups.container(UID, BURSTABLE, f"containerd://{bad}")


@pytest.mark.parametrize("bad", ["", ID, f"rkt://{ID}", f"://{ID}", "../containerd://x"])
def test_a_container_of_an_unknown_runtime_is_refused(bad: str) -> None:
    with pytest.raises(UnsafeName, match="known runtime"):
        SYSTEMD.container(UID, BURSTABLE, bad)


@given(st.text(max_size=40), st.text(max_size=40), st.sampled_from(QOSClass))
def test_no_name_leads_out_of_kubepods(uid: str, container: str, qos: QOSClass) -> None:
    for cgroups in (SYSTEMD, CGROUPFS, KIND):
        try:
            path = cgroups.container(uid, qos, f"containerd://{container}")
        except UnsafeName:
            continue
        assert path.startswith(cgroups.kubepods + "/")
        assert not {"", ".", ".."} & set(path[1:].split("/"))


@pytest.mark.parametrize(
    ("cgroup_root", "present", "expected"),
    [
        ("/", "/kubepods.slice", SYSTEMD),
        ("", "/kubepods", CGROUPFS),
        ("/kubelet", "/kubelet/kubepods", PodCgroups(Driver.CGROUPFS, "/kubelet/kubepods")),
        ("kubelet/", "/kubelet.slice/kubelet-kubepods.slice", KIND),
        ("/kubelet.slice", "/kubelet.slice/kubelet-kubepods.slice", KIND),
        (
            "/a/b-c",
            "/a.slice/a-b_c.slice/a-b_c-kubepods.slice",
            PodCgroups(Driver.SYSTEMD, "/a.slice/a-b_c.slice/a-b_c-kubepods.slice"),
        ),
        (
            "/system.slice/docker-1.scope",
            "/system.slice/docker-1.scope/kubepods.slice",
            PodCgroups(Driver.SYSTEMD, "/system.slice/docker-1.scope/kubepods.slice"),
        ),
    ],
)
def test_existing_cgroups_reveal_driver_and_prefix(
    cgroup_root: str, present: str, expected: PodCgroups
) -> None:
    assert find_pod_cgroups(StoredCgroups(Version.V2, [present]), cgroup_root) == expected


def test_driver_that_has_pods_wins_over_the_other() -> None:
    left_over = StoredCgroups(Version.V2, ["/kubepods.slice", CGROUPFS.pod(UID, BURSTABLE)])
    assert find_pod_cgroups(left_over) == CGROUPFS


def test_missing_kubelet_cgroups_error_says_what_was_searched() -> None:
    with pytest.raises(LayoutUnknown, match=r"/k\.slice/k-kubepods\.slice") as caught:
        find_pod_cgroups(StoredCgroups(Version.V2), "/k")
    assert "--cgroup-root" in caught.value.hint


def test_a_cgroup_root_with_dots_is_refused() -> None:
    with pytest.raises(UnsafeName, match="without"):
        find_pod_cgroups(StoredCgroups(Version.V2), "/a/../..")


@pytest.mark.parametrize("version", Version)
def test_pods_are_found_in_a_tree_of_files(tmp_path: Path, version: Version) -> None:
    plain_tree(tmp_path, version, [KIND.pod(UID, BURSTABLE)])
    with CgroupFiles(find_layout(tmp_path)) as files:
        assert find_pod_cgroups(files, "/kubelet") == KIND
