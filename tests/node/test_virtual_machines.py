"""On real kernels with cgroup v2, on machines of several shapes, corewise reads and writes what is right.

Each machine is booted once, and everything observed in it; the tests judge what was seen. What is expected of
the hardware is what qemu was told; what is expected of quotas is worked out by hand.
"""

from __future__ import annotations

from statistics import median

import pytest

from corewise.kernel.cgroups.layout import CONTROLLERS
from corewise.topology import CPUSet
from node.guest.program import KUBELETS, LIFTED, OWNERS, OWNERS_DIVIDED, QUOTAS
from node.guest.records import (
    Deaths,
    Hybrid,
    Mounted,
    Names,
    Observations,
    Pins,
    Program,
    Quotas,
    Settings,
    Shape,
    Usage,
)
from node.machines import MACHINES, MEBI, Machine
from node.unpacking import Unavailable
from node.virtual_machines import Tools, observed, tools

TOLERANCE = 0.02
TOLERANCE_OF_ONE = 0.1
TREES = {"systemd": "systemd", "cgroupfs below a root": "cgroupfs", "systemd below a root": "systemd"}
UNLIMITED = {"free": "max 100000", "free/any": "max 100000"}
UNDIVIDED = {
    "web": "301000 100000",
    "web/one": "100000 100000",
    "web/two": "200000 100000",
    "web/tiny": "1000 100000",
    "db": "230000 100000",
    "db/only": "115000 50000",
    **UNLIMITED,
}
HALVED = {
    "web": "150500 100000",
    "web/one": "50000 100000",
    "web/two": "100000 100000",
    "web/tiny": "1000 100000",
    "db": "115000 100000",
    "db/only": "57500 50000",
    **UNLIMITED,
}
BY_1_20 = {
    "web": "250834 100000",
    "web/one": "83334 100000",
    "web/two": "166667 100000",
    "web/tiny": "1000 100000",
    "db": "191667 100000",
    "db/only": "95834 50000",
    **UNLIMITED,
}
STEPS = {
    "100": (UNDIVIDED, 20_000),
    "200": (HALVED, 10_000),
    "120": (BY_1_20, 16_666),
    "removed": (UNDIVIDED, 20_000),
    "restored": (UNDIVIDED, 20_000),
}


@pytest.fixture(scope="module")
def boot() -> Tools:
    try:
        return tools()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module", params=MACHINES, ids=lambda machine: machine.name)
def machine(request: pytest.FixtureRequest) -> Machine:
    assert isinstance(request.param, Machine)
    return request.param


@pytest.fixture(scope="module")
def seen(machine: Machine, boot: Tools, tmp_path_factory: pytest.TempPathFactory) -> Observations:
    try:
        return observed(machine, boot, tmp_path_factory.mktemp(machine.name))
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(params=TREES)
def tree(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_machine_is_read_as_qemu_was_told(machine: Machine, seen: Observations) -> None:
    shape = seen.get("hardware/as booted", Shape)
    assert (shape.model, shape.vendor) == (machine.model, machine.vendor)
    assert (shape.hyper_threading, shape.turbo) == (machine.threads > 1, False)
    assert shape.cores == machine.groups(machine.threads)
    assert list(shape.sockets.values()) == machine.groups(machine.cores * machine.threads)
    assert shape.numa_nodes == {node: cpus for node, (_, cpus) in enumerate(machine.numa)}
    assert tuple(shape.caches.values()) == machine.caches
    assert shape.offline == ""
    assert shape.problems == []


def test_memory_is_what_qemu_got_minus_kernel_reserve(machine: Machine, seen: Observations) -> None:
    shape = seen.get("hardware/as booted", Shape)
    assert shape.memory_total == sum(shape.memory.values())
    for node, (mebibytes, _) in enumerate(machine.numa):
        assert 0.85 * mebibytes * MEBI < shape.memory[node] <= mebibytes * MEBI


def test_cores_sockets_and_nodes_are_numbered_like_lscpu(seen: Observations) -> None:
    for state in ("as booted", "last CPU offline", "as before"):
        shape = seen.get(f"hardware/{state}", Shape)
        assert shape.threads == shape.lscpu


def test_only_the_cpu_taken_offline_is_missing(machine: Machine, seen: Observations) -> None:
    before, after = (seen.get(f"hardware/{state}", Shape) for state in ("as booted", "last CPU offline"))
    last = machine.cpus - 1
    assert after.offline == str(last)
    assert after.threads == [row for row in before.threads if row[0] != last]
    assert after.memory == before.memory
    assert (after.model, after.hyper_threading) == (before.model, before.hyper_threading)


def test_smt_switched_off_leaves_every_core_one_thread(machine: Machine, seen: Observations) -> None:
    switched = seen.get("hardware/SMT can be switched", bool)
    assert switched is (machine.threads > 1)
    if switched:
        shape = seen.get("hardware/SMT off", Shape)
        assert not shape.hyper_threading
        assert len(shape.cores) == machine.sockets * machine.cores
        assert shape.offline == ",".join(str(cpu) for cpu in range(1, machine.cpus, 2))
        assert shape.problems == []


def test_cpus_that_come_back_are_seen_as_before(seen: Observations) -> None:
    assert seen.get("hardware/as before", Shape) == seen.get("hardware/as booted", Shape)


def test_the_unified_hierarchy_serves_the_cpu(seen: Observations) -> None:
    unified = Mounted("v2", hybrid=False, mounts=dict.fromkeys(CONTROLLERS, "/sys/fs/cgroup"))
    assert seen.get("layout/unified", Mounted) == unified
    assert seen.get("layout/unified again", Mounted) == unified


def test_hybrid_hierarchy_finds_v1_controllers_where_they_are(seen: Observations) -> None:
    layout = seen.get("layout/hybrid", Mounted)
    assert (layout.version, layout.hybrid) == ("v1", True)
    both = dict.fromkeys(("cpu", "cpuacct"), "/run/cgroup-v1/cpu,cpuacct")
    assert layout.mounts == {**both, "cpuset": "/run/cgroup-v1/cpuset"}


def test_hybrid_v1_hierarchy_takes_every_ratio_without_refusal(seen: Observations) -> None:
    hybrid = seen.get("hybrid", Hybrid)
    assert hybrid.quotas == [
        [200_000, 100_000, 100_000],
        [100_000, 50_000, 50_000],
        [166_667, 83_334, 83_334],
        [200_000, 100_000, 100_000],
    ]
    assert (hybrid.totals["written"], hybrid.totals["refused"], hybrid.totals["failed"]) == (9, 0, 0)


def test_pods_are_found_under_their_drivers_names(seen: Observations, tree: str) -> None:
    names = seen.get(f"names/{tree}", Names)
    assert names.driver == TREES[tree]
    assert names.named == names.made


@pytest.mark.parametrize("step", STEPS)
def test_ratio_changes_reach_the_right_quotas_without_refusal(
    seen: Observations, tree: str, step: str
) -> None:
    quotas = seen.get(f"quotas/{tree}/{step}", Quotas)
    expected, burst = STEPS[step]
    assert quotas.cpu_max == expected
    assert quotas.burst == {role: burst if role == "web/two" else 0 for role in expected}
    assert (quotas.refused, quotas.failed, quotas.gone) == (0, {}, [])


@pytest.mark.parametrize("step", ["100", "200 again", "120 again", "restored again"])
def test_nothing_is_written_where_nothing_changes(seen: Observations, tree: str, step: str) -> None:
    assert seen.get(f"quotas/{tree}/{step}", Quotas).written == 0


def assert_share(usage: Usage, expected: float) -> None:
    """Compare with what a quota gives: no spell may have much more, nor most of them any more.

    Less than that is the machine's doing where it is busy: what the quota is, other tests read in cpu.max.
    """
    cpus = [spell.cpus for spell in usage.spells]
    assert max(cpus) < expected * (1 + TOLERANCE_OF_ONE), usage
    assert median(cpus) < expected * (1 + TOLERANCE), usage
    nearest = min(usage.full, key=lambda each: abs(each - expected), default=0.0)
    if nearest < expected * (1 - TOLERANCE):
        pytest.skip(f"this machine is too busy to give a container its quota: {usage}")
    assert nearest == pytest.approx(expected, rel=TOLERANCE), usage


def test_container_cpu_becomes_two_thirds_under_1_50(seen: Observations) -> None:
    assert_share(seen.get("usage/one CPU under 1.50", Usage), 1 / 1.5)


def test_the_threads_of_a_container_share_its_quota(seen: Observations) -> None:
    assert_share(seen.get("usage/four threads, two CPUs under 1.50", Usage), 2 / 1.5)


def test_pod_narrower_than_its_containers_bounds_them_all(seen: Observations) -> None:
    texts = seen.get("usage/cpu.max in a narrow pod", dict[str, str])
    assert (texts["web"], texts["web/one"], texts["web/two"]) == (
        "50000 100000",
        "66667 100000",
        "133334 100000",
    )
    assert_share(seen.get("usage/narrow pod", Usage), 0.5)


def test_successor_of_a_writer_killed_anywhere_finishes_correctly(
    seen: Observations,
) -> None:
    deaths = seen.get("deaths", Deaths)
    assert {"read", "held", "entered", "written"} <= set(deaths.points)
    assert deaths.outcomes == [BY_1_20] * len(deaths.points)


def test_vanished_cgroup_is_reported_and_the_rest_divided(seen: Observations) -> None:
    quotas = seen.get("faults/vanished", Quotas)
    assert quotas.gone == ["web/tiny"]
    assert (quotas.refused, quotas.failed) == (0, {})
    assert {**quotas.cpu_max, "web/tiny": ""} == {**HALVED, "web/tiny": ""}


def test_read_only_hierarchy_is_reported_for_every_write(seen: Observations) -> None:
    quotas = seen.get("faults/read-only", Quotas)
    due = {role for role in UNDIVIDED if UNDIVIDED[role] != HALVED[role]}
    assert quotas.failed == dict.fromkeys(due, "ReadOnly")
    assert quotas.written == 0


def test_kernel_has_the_rules_other_tests_rely_on(seen: Observations) -> None:
    assert seen.get("rules/answers", dict[str, str]) == {
        "a quota of 999 us": "EINVAL",
        "a quota of 1000 us": "",
        "a quota alone, beside the period of another": "",
        "a child above its parent": "",
        "a parent below its child": "",
        "a quota below the burst": "EINVAL",
        "a burst above the quota": "EINVAL",
        "a burst of the quota": "",
    }
    texts = seen.get("rules/cpu.max", dict[str, str])
    assert (texts["web"], texts["web/one"], texts["db/only"]) == (
        "50000 100000",
        "900000 100000",
        "60000 50000",
    )


Steps = dict[str, dict[str, int]]


@pytest.fixture
def program(machine: Machine, seen: Observations) -> Steps:
    """The quotas of a pod at each step."""
    if not machine.runs_agent:
        pytest.skip("the agent runs as a program on one machine only: a start takes its time under emulation")
    return {
        step: seen.get(f"program/{step}", dict[str, int])
        for step in ("kubelet's", *QUOTAS, "killed", "ended", "restored")
    }


def test_agent_brings_pods_to_quotas_of_each_ratio(program: Steps) -> None:
    assert program["kubelet's"] == KUBELETS
    assert {step: program[step] for step in QUOTAS} == QUOTAS


def test_killed_agent_changes_nothing_and_its_successor_continues(program: Steps) -> None:
    assert program["killed"] == QUOTAS["1.20"]
    assert program["1.60"] == QUOTAS["1.60"]


def test_orderly_exit_changes_nothing_and_restore_resets_everything(
    program: Steps, seen: Observations
) -> None:
    assert program["ended"] == QUOTAS["2.00"]
    assert program["restored"] == KUBELETS
    assert seen.get("program", Program) == Program(ended=0, restored=0, bugs=0)


@pytest.mark.parametrize(
    ("step", "quotas"),
    [("owns", LIFTED), ("shares", OWNERS_DIVIDED), ("owns again", LIFTED), ("restored", OWNERS)],
)
@pytest.mark.usefixtures("program")
def test_pod_has_no_quota_only_while_owning_cpus(
    seen: Observations, step: str, quotas: dict[str, int]
) -> None:
    assert seen.get(f"owner/{step}", dict[str, int]) == quotas


def test_agent_reports_the_machine_qemu_was_given(
    machine: Machine, program: Steps, seen: Observations
) -> None:
    cpus = [len(CPUSet.parse(cpus)) for _, cpus in machine.numa]
    assert seen.get("program/topology", dict[str, object]) == {
        "model": machine.model,
        "hyperThreading": machine.threads > 1,
        "zones": {f"node-{node}": str(count * 2) for node, count in enumerate(cpus)},
    }


@pytest.fixture
def pins(machine: Machine, seen: Observations) -> dict[str, Pins]:
    """Return the agent's CPU sets at each step."""
    if not machine.runs_agent:
        pytest.skip("the agent's CPU sets are looked at on one machine only")
    steps = ("before", "owned", "a container begins", "moved", "after a restart", "gone", "restored")
    return {step: seen.get(f"pinning/{step}", Pins) for step in steps}


def test_v2_owner_runs_on_its_cpus_others_elsewhere(machine: Machine, pins: dict[str, Pins]) -> None:
    everywhere = f"0-{machine.cpus - 1}"
    assert set(pins["before"].allowed.values()) == {everywhere}
    assert pins["owned"].problems == []
    assert pins["owned"].allowed == {"db": "1", "web": "0,2-3", "free": "0,2-3"}
    assert pins["owned"].shown["db/only"] == "1"
    assert pins["a container begins"].allowed["anew"] == "0,2-3", "before the agent has looked at it"
    assert pins["moved"].allowed == {"db": "2", "web": "0-1,3", "free": "0-1,3", "anew": "0-1,3"}


def test_v2_restart_keeps_cpusets_and_last_owner_restores(machine: Machine, pins: dict[str, Pins]) -> None:
    assert pins["after a restart"].written == 0
    everywhere = f"0-{machine.cpus - 1}"
    for step in ("gone", "restored"):
        assert pins[step].problems == []
        assert set(pins[step].allowed.values()) == {everywhere}
        assert set(pins[step].shown.values()) <= {"", everywhere}, "empty, or all of the parent's by name"


@pytest.mark.parametrize(
    ("step", "pod", "one", "written"),
    [("0-1", "0-1", "0", 5), ("2-3", "2-3", "3", 2), ("1-2", "1-2", "1-2", 2), ("again", "1-2", "1-2", 0)],
)
def test_settings_are_as_wanted_without_extra_writes(
    seen: Observations, step: str, pod: str, one: str, written: int
) -> None:
    settings = seen.get(f"settings/{step}", Settings)
    assert (settings.problems, settings.refused, settings.drifted) == ([], 0, 0)
    assert (settings.shown["web/cpuset.cpus"], settings.shown["web/one/cpuset.cpus"]) == (pod, one)
    assert settings.shown["web/one/cpu.weight"] == "20"
    assert settings.shown["web/two/memory.max"] == str(64 * MEBI)
    assert settings.shown["web/two/cpuset.mems"] == "0"
    assert settings.written == written


def test_settings_changed_by_others_are_repaired_and_counted(seen: Observations) -> None:
    settings = seen.get("settings/drifted", Settings)
    assert (settings.problems, settings.drifted, settings.written) == ([], 1, 1)
    assert settings.shown["web/one/cpu.weight"] == "20"


@pytest.mark.parametrize(
    ("step", "idle", "written"),
    [("idle", "1", 1), ("idle again", "1", 0), ("idle no more", "0", 2), ("idle at the end", "1", 1)],
)
def test_idle_cgroup_has_its_weight_again_afterwards(
    seen: Observations, step: str, idle: str, written: int
) -> None:
    settings = seen.get(f"settings/{step}", Settings)
    assert (settings.problems, settings.drifted, settings.written) == ([], 0, written)
    assert settings.shown["web/one/cpu.idle"] == idle
    assert settings.shown["web/one/cpu.weight"] == ("20" if idle == "0" else "0")


def test_settings_are_restored_as_found_by_another_process(seen: Observations) -> None:
    before, restored = (seen.get(f"settings/{step}", Settings) for step in ("before", "restored"))
    assert restored.problems == []
    assert restored.shown == before.shown


def test_kernel_has_settings_rules_other_tests_rely_on(seen: Observations) -> None:
    answers = seen.get("settings/answers", dict[str, str])
    refused = {answers.pop(each) for each in ("a weight of 0", "a weight of 10001")}
    assert refused == {"ERANGE"}
    assert answers.pop("a weight of an idle cgroup") == "EINVAL"
    assert answers.pop("a CPU that there is not") in {"EINVAL", "ERANGE", "EOVERFLOW"}
    assert set(answers.values()) == {""}
    assert seen.get("settings/limit", str) == str(12_345_678 // 4096 * 4096)
