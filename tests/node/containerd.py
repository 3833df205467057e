"""A real containerd with NRI in namespaces of its own, so that nothing of it outlives the test.

A shell is the first process of a new pid and mount namespace and starts and kills containerd as it is told by
its input. When that ends, with the test or by its death, the shell ends, and the kernel takes the namespace
with it: containerd, shims, containers, and every mount. Cgroups are the host's; ours are below one parent,
which is removed at the end.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pytest

from corewise.topology import CPUSet
from node.cri import CRI, Pod
from node.image import IMAGE, write_image
from node.packages import RuntimeFiles, runtime_files
from node.unpacking import Unavailable

LONGEST = 180.0
"""Seconds to wait for what takes one or two."""

UNLIMITED = -1
"""The quota of a cgroup that has none, and in an OCI spec."""

_CGROUPS = Path("/sys/fs/cgroup")
_CONFIG = """
version = 2
root = "{base}/root"
state = "{base}/state"
disabled_plugins = ["io.containerd.internal.v1.tracing"]
[grpc]
  address = "{base}/grpc.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{base}/opt"
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  socket_path = "{base}/nri.sock"
  plugin_path = "{base}/nri-plugins"
  plugin_config_path = "{base}/nri-config"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{base}/cni"
    conf_dir = "{base}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{runc}"
        SystemdCgroup = false
"""
_NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
_SHELL = """
mount -t tmpfs none /run || exit 1
while read -r line; do eval "$line"; echo "$?"; done
"""


class ContainerdNode:
    """A node with containerd; entered, it runs, with the image, and left, it is gone."""

    def __init__(self, files: RuntimeFiles, base: Path) -> None:
        self._files = files
        self.base = base
        self.nri_socket = base / "nri.sock"
        self.log = base / "log"
        self._parent = f"/corewise-test-{os.getpid()}"
        self._burstable = f"{self._parent}/kubepods/burstable"
        self._shell: subprocess.Popen[str] | None = None
        self.cri: CRI
        self._pods = 0

    @contextmanager
    def running(self) -> Iterator[ContainerdNode]:
        self._prepare()
        with subprocess.Popen(
            [*_NAMESPACES, "sh", "-c", _SHELL],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        ) as self._shell:
            try:
                self.start()
                self._import_image()
                yield self
            finally:
                self.cri.close()
                _input(self._shell).close()
                self._shell.wait(LONGEST)
                self._remove_cgroups()

    def start(self) -> None:
        """Start containerd, and wait until it serves."""
        environment = f"PATH={shlex.quote(str(self._files.containerd.parent))}:$PATH"
        program, config, log = (
            shlex.quote(str(path)) for path in (self._files.containerd, self.base / "config.toml", self.log)
        )
        self._tell(f"{environment} {program} --config {config} >>{log} 2>&1 & containerd=$!")
        self.cri = CRI(self.base / "grpc.sock")
        self.wait_for(self._serves, "containerd serves")

    def kill(self) -> None:
        """Kill containerd; its shims and their containers go on."""
        self.cri.close()
        self._tell("kill -KILL $containerd; wait $containerd; true")

    @property
    def cgroup_root(self) -> str:
        """The ``--cgroup-root`` that a kubelet of this node would have."""
        return self._parent

    def make_kubepods(self) -> None:
        """Make the cgroup that a kubelet with the cgroupfs driver has its burstable pods in."""
        for root in hierarchies():
            (root / self._burstable[1:]).mkdir(parents=True, exist_ok=True)

    def make_pod_cgroup(self, uid: str, quota: int) -> None:
        """Make a pod's cgroup with its quota, as kubelet does before it has the runtime start the pod."""
        for root in hierarchies():
            directory = root / self._burstable[1:] / f"pod{uid}"
            directory.mkdir()
            if unified():
                for parent in reversed(directory.relative_to(root).parents):
                    (root / parent / "cgroup.subtree_control").write_text("+cpu +cpuset")
        self._quota_file(f"{self._burstable}/pod{uid}").write_text(str(quota))

    @contextmanager
    def pod(self, uid: str = "", logs: Path | None = None) -> Iterator[Pod]:
        """A pod that runs as long as this lasts; with a UID of the API, below kubelet's cgroup."""
        self._pods += 1
        above = self._burstable if uid else self._parent
        uid = uid or f"uid-{self._pods}"
        pod = self.cri.run_pod(uid, f"{above}/pod{uid}", logs)
        try:
            yield pod
        finally:
            self.cri.remove_pod(pod)

    def create(self, pod: Pod, name: str, *, quota: int) -> str:
        """Create a container whose first act is to note its own quota."""
        seen = self.base / "seen" / name
        seen.mkdir(parents=True)
        quota_file = _CGROUPS / ("cpu.max" if unified() else "cpu/cpu.cfs_quota_us")
        command = ["/bin/sh", "-c", f"cat {quota_file} >/seen/quota; exec sleep 1000000"]
        return self.cri.create(pod, name, quota=quota, command=command, seen=seen)

    def first_seen_quota(self, name: str) -> int:
        """Return the quota that a container's first process saw."""
        file = self.base / "seen" / name / "quota"
        self.wait_for(lambda: file.exists() and file.read_text().endswith("\n"), f"{name} notes its quota")
        return _quota(file)

    def quota(self, pod: Pod, container_id: str = "") -> int:
        """Return the quota that a container has now, or with no ID its pod."""
        return _quota(self._quota_file(f"{pod.cgroup}/{container_id}"))

    def _quota_file(self, cgroup: str) -> Path:
        file = "cpu.max" if unified() else "cpu.cfs_quota_us"
        return (_CGROUPS if unified() else _CGROUPS / "cpu") / cgroup.strip("/") / file

    def cpus(self, pod: Pod) -> CPUSet:
        """Return the CPUs that a pod's cgroup has now."""
        mount = _CGROUPS if unified() else _CGROUPS / "cpuset"
        return CPUSet.parse((mount / pod.cgroup.lstrip("/") / "cpuset.cpus").read_text())

    def stated_quota(self, container_id: str) -> int:
        """Return the quota in the container's OCI spec: what it has from its first moment."""
        return int(self.spec(container_id)["linux"]["resources"]["cpu"]["quota"])

    def spec(self, container_id: str) -> dict[str, Any]:
        """Return the container's OCI spec."""
        info: Any = json.loads(self._ctr("containers", "info", container_id))
        return dict(info["Spec"])

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Look again and again until something has come about in other processes."""
        deadline = time.monotonic() + LONGEST
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain until {what}{self._log_end()}")
            time.sleep(0.02)

    def _prepare(self) -> None:
        for directory in ("root", "state", "opt", "cni", "nri-plugins", "nri-config"):
            (self.base / directory).mkdir()
        config = _CONFIG.format(base=self.base, runc=self._files.runc, image=IMAGE)
        (self.base / "config.toml").write_text(config)

    def _serves(self) -> bool:
        assert self._shell is not None
        if self._shell.poll() is not None:
            raise AssertionError("the namespace has ended")
        with suppress(subprocess.CalledProcessError):
            return self.nri_socket.exists() and bool(self._ctr("version"))
        return False

    def import_image(self, archive: Path) -> None:
        """Import an OCI archive, as an administrator does."""
        self._ctr("images", "import", "--local", "--snapshotter", "native", str(archive), inside=True)

    def _import_image(self) -> None:
        archive = self.base / "image.tar"
        write_image(self._files.busybox, archive)
        self.import_image(archive)
        self.wait_for(self.cri.has_image, "the CRI knows the image")

    def _ctr(self, *arguments: str, inside: bool = False) -> str:
        """Run containerd's own client; ``inside`` its namespace, where mounts are made."""
        command = [str(self._files.ctr), "--address", str(self.base / "grpc.sock"), "--namespace", "k8s.io"]
        if inside:
            bounded = ["timeout", str(LONGEST), *command, *arguments]
            self._tell(f"{shlex.join(bounded)} >>{shlex.quote(str(self.log))} 2>&1")
            return ""
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=LONGEST, check=True
        )
        return done.stdout

    def _tell(self, line: str) -> None:
        assert self._shell is not None
        assert self._shell.stdout is not None
        _input(self._shell).write(f"{line}\n")
        status = self._shell.stdout.readline().strip()
        if status != "0":
            raise AssertionError(f"{line!r} ended with {status!r}{self._log_end()}")

    def _log_end(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(["; the end of containerd's log:", *lines[-30:]])

    def _remove_cgroups(self) -> None:
        """Remove the cgroups that are left: empty, since their processes ended with the namespace."""
        deadline = time.monotonic() + LONGEST
        left = [root / self._parent[1:] for root in hierarchies()]
        while left and time.monotonic() < deadline:
            for parent in left:
                for directory, _, _ in os.walk(parent, topdown=False):
                    with suppress(OSError):
                        Path(directory).rmdir()
            left = [parent for parent in left if parent.exists()]
            time.sleep(0.02)
        assert not left


def hierarchies() -> list[Path]:
    """Return where cgroups are mounted."""
    return [_CGROUPS] if unified() else [each for each in _CGROUPS.iterdir() if each.is_dir()]


def unified() -> bool:
    """Whether this machine has cgroup v2 alone."""
    return (_CGROUPS / "cgroup.controllers").exists()


def _quota(file: Path) -> int:
    """Read a quota in a file of either version."""
    text = file.read_text().split()[0]
    return UNLIMITED if text == "max" else int(text)


def unavailable() -> str:
    """Return the reason containerd cannot run here; "" if it can."""
    if os.geteuid() != 0:
        return "containerd needs root"
    if not shutil.which(_NAMESPACES[0]):
        return f"there is no {_NAMESPACES[0]} here"
    tried = subprocess.run(
        [*_NAMESPACES, "mount", "-t", "tmpfs", "none", "/run"], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        return f"no namespaces may be made here: {tried.stderr.strip()}"
    if not os.access(_CGROUPS if unified() else _CGROUPS / "cpu", os.W_OK):
        return f"no cpu controller below {_CGROUPS} that may be written"
    return ""


def _input(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdin is not None
    return process.stdin


@contextmanager
def containerd_or_skip() -> Iterator[ContainerdNode]:
    """Run a containerd for a block; skip the test where none can run, and say why."""
    if reason := unavailable():
        pytest.skip(reason)
    try:
        files = runtime_files()
    except Unavailable as error:
        pytest.skip(str(error))
    with (
        tempfile.TemporaryDirectory(prefix="corewise-node-") as base,
        ContainerdNode(files, Path(base)).running() as node,
    ):
        yield node
