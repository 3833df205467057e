"""A simulated machine in virtual time: its counters are what a kernel counts, and its agent is obeyed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import find_layout
from corewise.kernel.cgroups.resources import read_usage, read_working_set
from corewise.kernel.host_files import HostFiles
from corewise.kernel.machine import read_machine
from corewise.kernel.usage import read_busy_time, read_node_memory
from corewise.quantities import Bytes
from corewise_lab.load import Load, Shape
from corewise_lab.machine_files import MachineFiles
from corewise_lab.machines import CATALOG, Machine
from corewise_lab.node_cgroups import BEST_EFFORT, MOUNT
from corewise_lab.node_simulation import NodeSimulation, PodTotals
from corewise_lab.pods import manifest
from simulation.simulated_machine import SimulatedMachine

CPUS = 8
MEMORY = Bytes(64 << 30)
MODEL = CATALOG["Neoverse-N1"]
SPEED = MODEL.core_speed or 0.0
NANO = 1_000_000_000
Agent = Callable[[float], object]


class Node:
    """A machine of eight CPUs with one online pod of four CPUs and one offline pod."""

    def __init__(self, folder: Path, load: Load, *, hyper_threading: bool = False) -> None:
        model = CATALOG["AMD EPYC 9654 96-Core Processor"] if hyper_threading else MODEL
        self.machine = Machine("n1", model, CPUS, MEMORY, hyper_threading=hyper_threading)
        self.simulated = SimulatedMachine(folder, self.machine)
        self.root = self.simulated.root
        self.pods = [
            self.simulated.start(manifest("web", cpu_milli=4000, memory=8 << 30, node="n1", load=load)),
            self.simulated.start(
                manifest("batch", cpu_milli=8000, memory=4 << 30, offline=True, node="n1"), qos="BestEffort"
            ),
        ]

    def simulation(self, agent: Agent | None = None) -> NodeSimulation:
        return NodeSimulation(self.machine, self.root, self.pods, agent=agent)

    def bound(self, quota: str) -> None:
        (self.root / MOUNT / BEST_EFFORT / "cpu.max").write_text(f"{quota} 100000\n")

    @property
    def busy(self) -> int:
        time = read_busy_time(HostFiles(self.root))
        assert time is not None
        return time.busy

    @property
    def files(self) -> CgroupFiles:
        return CgroupFiles(find_layout(self.root))


STEADY = Load(SPEED / 2, SPEED / 2)
"""Of four CPUs: two are busy."""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, STEADY)


def test_an_agent_reads_what_everybody_has_used(node: Node) -> None:
    simulation = node.simulation()
    simulation.advance(100)
    with node.files as files:
        assert read_usage(files, f"/{BEST_EFFORT}") == pytest.approx(600 * NANO)
    assert node.busy == pytest.approx(800 * NANO, rel=0.001)
    assert simulation.account.offline == pytest.approx(600)
    assert simulation.account.online == pytest.approx(200)


def test_counters_run_forwards_only(node: Node) -> None:
    seen: list[int] = []
    simulation = node.simulation(lambda _now: seen.append(node.busy))
    simulation.advance(50)
    assert len(seen) == 5
    assert seen == sorted(seen)


def test_memory_is_what_pods_and_page_cache_use(node: Node) -> None:
    node.simulation().advance(10)
    with node.files as files:
        assert read_working_set(files, f"/{BEST_EFFORT}") == pytest.approx(0.7 * (4 << 30), rel=0.001)
    used = read_node_memory(HostFiles(node.root))
    assert used is not None
    assert used.used == pytest.approx(0.7 * (12 << 30), rel=0.001)


def test_agent_runs_each_interval_and_acts_next_step(node: Node) -> None:
    times: list[float] = []

    def agent(now: float) -> None:
        times.append(now)
        node.bound("200000")

    simulation = node.simulation(agent)
    simulation.advance(10)
    assert simulation.account.offline == pytest.approx(60), "no one had bounded anything yet"
    simulation.begin_account()
    simulation.advance(25)
    assert times == [10.0, 20.0, 30.0]
    assert simulation.account.offline == pytest.approx(2 * 25)
    assert simulation.account.throttled == pytest.approx((8 - 2) * 25)


def test_a_quota_that_is_taken_away_lets_go(node: Node) -> None:
    node.bound("100000")
    simulation = node.simulation(lambda now: node.bound("max" if now >= 20 else "100000"))
    simulation.advance(30)
    assert simulation.account.offline == pytest.approx(20 * 1 + 10 * 6)


def test_without_an_agent_weights_alone_protect_online_pods(tmp_path: Path) -> None:
    node = Node(tmp_path, Load(100.0, 100.0))
    simulation = node.simulation()
    simulation.advance(20)
    (lost,) = simulation.account.slowdowns
    assert lost == pytest.approx(0, abs=1e-9), "its quota is half of the machine, and it has all of it"
    assert simulation.account.offline == pytest.approx(4 * 20)


def test_throttled_hyper_threaded_pod_loses_what_siblings_take(tmp_path: Path) -> None:
    node = Node(tmp_path, Load(100.0, 100.0), hyper_threading=True)
    simulation = node.simulation()
    simulation.advance(20)
    model = node.machine.model
    assert model is not None
    (lost,) = simulation.account.slowdowns
    assert lost == pytest.approx(1 - model.thread_share)
    node.bound("100000")
    bounded = node.simulation()
    bounded.advance(20)
    (less,) = bounded.account.slowdowns
    assert 0 < less < lost / 2


def test_account_reports_the_time_cost_of_equal_work(tmp_path: Path) -> None:
    node = Node(tmp_path, Load(1.0, 1.0), hyper_threading=True)
    simulation = node.simulation()
    simulation.advance(20)
    account = simulation.account
    assert account.slowdowns == pytest.approx([0.0], abs=1e-6), "it had its work done"
    assert account.online > account.online_alone * 1.3, "on slower threads"


def test_a_machine_without_pods_idles(tmp_path: Path) -> None:
    node = Node(tmp_path, STEADY)
    node.pods = []
    simulation = node.simulation()
    simulation.advance(30)
    assert node.busy == 0
    assert simulation.account == PodTotals(seconds=30.0, cpus=CPUS)


def test_pods_are_counted_only_while_they_are_present(node: Node) -> None:
    simulation = node.simulation()
    simulation.place(node.pods[:1])
    simulation.advance(10)
    assert simulation.account.offline == 0
    simulation.place(node.pods)
    simulation.advance(10)
    assert simulation.account.offline == pytest.approx(60)


def test_initial_load_of_a_step_holds_throughout_it(tmp_path: Path) -> None:
    node = Node(tmp_path, Load(0.0, SPEED / 2, 20.0, Shape.STEP))
    simulation = node.simulation()
    simulation.advance(40)
    assert simulation.account.online == pytest.approx(2 * 20)


def test_the_same_run_gives_the_same_numbers(tmp_path: Path) -> None:
    accounts = []
    for name in ("one", "other"):
        simulation = Node(tmp_path / name, Load(0.2, 3.0, 17.0)).simulation()
        simulation.advance(60)
        accounts.append(simulation.account)
    assert accounts[0] == accounts[1]


def test_only_machines_with_running_counters_own_proc_files(tmp_path: Path) -> None:
    files = MachineFiles(tmp_path)
    machines = [Machine(name, MODEL, CPUS, MEMORY) for name in ("n1", "n2")]
    roots = [files.make(machine) for machine in machines]
    NodeSimulation(machines[0], roots[0], ())
    assert not (roots[0] / "proc").is_symlink()
    assert (roots[0] / "proc/cpuinfo").resolve() == (roots[1] / "proc/cpuinfo").resolve()
    assert not (roots[1] / "proc/stat").exists(), "what machines share was not written to"
    one, other = (read_machine(root) for root in roots)
    assert (one.cpu, one.host) == (other.cpu, other.host)
    assert files.boot_id("n1") == files.boot_id("n2")
