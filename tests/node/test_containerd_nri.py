"""With a real containerd, containers are created divided, and no pod waits for a plugin that is not there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from node.containerd import ContainerdNode, containerd_or_skip
from node.virtual_machines import FOLDERS

RATIO = "120"
ONE_CPU = 100_000
ONE_CPU_DIVIDED = 83_334
TWO_CPU = 200_000
TWO_CPU_DIVIDED = 166_667
UPDATES = [(ONE_CPU, ONE_CPU_DIVIDED), (TWO_CPU, TWO_CPU_DIVIDED), (TWO_CPU, TWO_CPU_DIVIDED)]
STARTED = ("POST_CREATE_CONTAINER", "START_CONTAINER", "POST_START_CONTAINER")


@pytest.fixture(scope="module")
def node() -> Iterator[ContainerdNode]:
    with containerd_or_skip() as node:
        yield node


class PluginProcess:
    """The plugin in a process of its own, and what it has said."""

    def __init__(self, node: ContainerdNode, process: subprocess.Popen[bytes], output: Path) -> None:
        self._node = node
        self._output = output
        self.process = process

    def said(self) -> list[str]:
        return self._output.read_text().splitlines()

    def wait_until_said(self, line: str, times: int = 1) -> None:
        self._node.wait_for(lambda: self.said().count(line) >= times, f"the plugin says {line!r}")


@contextmanager
def plugged(node: ContainerdNode, *flags: str) -> Iterator[PluginProcess]:
    """Run a plugin, from when it is synchronized."""
    with tempfile.TemporaryDirectory() as directory:
        output, errors = Path(directory, "output"), Path(directory, "errors")
        command = [sys.executable, "-m", "node.plugin_process", str(node.nri_socket), RATIO, *flags]
        environment = os.environ | {"PYTHONPATH": FOLDERS}
        with (
            output.open("wb") as stdout,
            errors.open("wb") as stderr,
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr, env=environment
            ) as process,
        ):
            plugin = PluginProcess(node, process, output)
            try:
                plugin.wait_until_said("connected")
                yield plugin
            finally:
                process.kill()
        assert "bug" not in errors.read_text()


def test_a_container_is_created_already_divided(node: ContainerdNode) -> None:
    with plugged(node) as plugin:
        with node.pod() as pod:
            container = node.create(pod, "divided", quota=ONE_CPU)
            assert node.stated_quota(container) == ONE_CPU_DIVIDED
            node.cri.start(container)
            assert node.first_seen_quota("divided") == ONE_CPU_DIVIDED
            assert node.quota(pod, container) == ONE_CPU_DIVIDED
        plugin.wait_until_said(f"REMOVE_POD_SANDBOX {pod.uid}")
        assert plugin.said()[:7] == [
            "synchronize 0",
            "connected",
            f"run {pod.uid} {pod.cgroup}",
            f"create {pod.uid} divided {ONE_CPU}",
            *(f"{event} {pod.uid} divided" for event in STARTED),
        ]


def test_an_update_is_not_divided_twice(node: ContainerdNode) -> None:
    with plugged(node) as plugin, node.pod() as pod:
        container = node.create(pod, "updated", quota=ONE_CPU)
        node.cri.start(container)
        for quota, divided in UPDATES:
            node.cri.update(container, cpu_quota=quota, cpu_period=100_000)
            assert node.quota(pod, container) == divided
            assert node.stated_quota(container) == divided
        node.cri.update(container, cpu_shares=2048)
        assert node.quota(pod, container) == TWO_CPU_DIVIDED
        assert f"update {pod.uid} updated None" in plugin.said()


def test_pods_start_without_plugin_and_divide_on_return(node: ContainerdNode) -> None:
    with plugged(node) as plugin:
        plugin.process.kill()
        plugin.process.wait()
        with node.pod() as pod:
            container = node.create(pod, "alone", quota=ONE_CPU)
            node.cri.start(container)
            assert node.first_seen_quota("alone") == ONE_CPU
            with plugged(node) as another:
                assert "synchronize 1 alone" in another.said()
                node.wait_for(lambda: node.quota(pod, container) == ONE_CPU_DIVIDED, "it is divided")


def test_pods_start_while_plugin_hangs_and_it_reregisters(node: ContainerdNode) -> None:
    with plugged(node) as plugin:
        plugin.process.send_signal(signal.SIGSTOP)
        with node.pod() as pod:
            container = node.create(pod, "waiting", quota=ONE_CPU)
            node.cri.start(container)
            assert node.first_seen_quota("waiting") == ONE_CPU
            plugin.process.send_signal(signal.SIGCONT)
            plugin.wait_until_said("connected", times=2)
            node.wait_for(lambda: node.quota(pod, container) == ONE_CPU_DIVIDED, "it is divided")


def test_plugin_that_is_slow_to_decide_is_kept(node: ContainerdNode) -> None:
    with plugged(node, "slow") as plugin:
        with node.pod() as pod:
            container = node.create(pod, "late", quota=ONE_CPU)
            node.cri.start(container)
            assert node.first_seen_quota("late") == ONE_CPU
        plugin.wait_until_said(f"REMOVE_POD_SANDBOX {pod.uid}")
        assert "late CreateContainer" in plugin.said()
        assert "disconnected" not in plugin.said()


def test_a_restarted_containerd_has_its_plugin_again(node: ContainerdNode) -> None:
    with plugged(node) as plugin, node.pod() as pod:
        container = node.create(pod, "before", quota=ONE_CPU)
        node.cri.start(container)
        for times in (2, 3):
            node.kill()
            node.start()
            plugin.wait_until_said("connected", times)
        assert plugin.said().count("synchronize 1 before") == 2
        assert node.quota(pod, container) == ONE_CPU_DIVIDED
        after = node.create(pod, "after", quota=TWO_CPU)
        node.cri.start(after)
        assert node.first_seen_quota("after") == TWO_CPU_DIVIDED
