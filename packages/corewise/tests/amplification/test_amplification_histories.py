"""Random histories of a node, longer and wilder than those that can be enumerated.

The events and the promise are those of :mod:`amplification.node_model`; here with two resources, plausible
forgeries, partly bad ratios, normalization that comes and goes, Koordinator's leavings, and a machine that
changes at will, also into exactly what it was amplified to. COREWISE_HISTORIES=N draws more of them.
"""

from __future__ import annotations

import os
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from amplification.node_model import (
    KNOWLEDGE,
    LONG,
    MACHINE,
    PATIENT,
    Cells,
    World,
    agent_reports,
    amounts,
    annotate,
    check,
    come_to_rest,
    forge,
    kubelet_reads,
    kubelet_writes,
    machine_becomes,
    manager_passes,
    other_writes,
    scheduler_binds,
    write_status,
)
from corewise.amplification import print_amounts
from corewise.amplification.annotations import CELLS, RECORD, print_count
from corewise.quantities import Ratio, amplify
from corewise.vocabulary import names
from tally import fault

RATIO_TEXTS = (
    '{"cpu":1.37}',
    '{"cpu":2.00}',
    '{"cpu":1.61,"memory":1.29}',
    '{"memory":1.53}',
    '{"cpu":1.00}',
    "{}",
    '{"cpu":1,5}',
    '{"cpu":0.99,"memory":1.29}',
    '{"cpu":"1.5"}',
    '{"cpu":10.01}',
    '{"nvidia.com/gpu":2.00,"cpu":1.37}',
    "null",
    "",
)
GARBAGE = ("", "{", "{}", "null", "[]", '{"cpu":"x"}', "-1", "1e99", "\x00")
RATIOS = tuple(Ratio(hundredths) for hundredths in (137, 200, 161, 153))
HISTORIES = int(os.environ.get("COREWISE_HISTORIES", "300"))

machines = st.builds(
    lambda cpus, gib, reserved: (
        cpus * 1000,
        gib << 30,
        cpus * 1000 - reserved,
        (gib << 30) - reserved * 1_000_003,
    ),
    st.sampled_from([4, 8, 11, 16]),
    st.sampled_from([29, 32, 64]),
    st.sampled_from([0, 90, 413]),
)


class NodeHistory(RuleBasedStateMachine):
    """One node and everybody who writes to it."""

    @initialize(
        begins=st.sampled_from(["raw", "amplified", "by Koordinator"]),
        normalization=st.sampled_from([None, Ratio(100), Ratio(143)]),
    )
    def begin(self, begins: str, normalization: Ratio | None) -> None:
        world = _left_by_koordinator() if begins == "by Koordinator" else World()
        world = replace(world, normalization=normalization)
        if begins == "amplified":
            world = manager_passes(annotate(world, {names.AMPLIFICATION_RATIO: '{"cpu":2.00}'}))
        self.world = world

    @rule(fresh=st.booleans())
    def kubelet_writes(self, fresh: bool) -> None:
        self.world = kubelet_writes(self.world, fresh=fresh)

    @rule()
    def kubelet_reads(self) -> None:
        self.world = kubelet_reads(self.world)

    @rule(machine=machines, reboot=st.booleans())
    def the_machine_changes(self, machine: Cells, reboot: bool) -> None:
        self.world = machine_becomes(self.world, machine, reboot=reboot)

    @rule(part=st.sampled_from([(0,), (0, 2), (1,), (1, 3), (0, 1, 2, 3)]))
    def the_machine_becomes_what_it_was_amplified_to(self, part: tuple[int, ...]) -> None:
        now = tuple(self.world.status[i] if i in part else self.world.machine[i] for i in range(len(CELLS)))
        if now[2] <= now[0] and now[3] <= now[1]:
            self.world = machine_becomes(self.world, now)

    @rule()
    def the_agent_reports(self) -> None:
        self.world = agent_reports(self.world)

    @rule()
    def the_agent_is_removed(self) -> None:
        fault("agent removed")
        self.world = replace(self.world, report=None)

    @rule(back=st.integers(0, 3))
    def another_writer_with_a_stale_view_writes(self, back: int) -> None:
        if self.world.past:
            self.other_writes(self.world.past[back % len(self.world.past)])

    @rule(cell=st.integers(0, 3), amount=st.sampled_from([0, 1, 777, 5_000_000_011]))
    def another_writer_states_an_amount(self, cell: int, amount: int) -> None:
        self.other_writes(tuple(amount if i == cell else old for i, old in enumerate(self.world.status)))

    def other_writes(self, new: Cells) -> None:
        fault("write by somebody else")
        self.world = other_writes(self.world, new)

    @rule()
    def somebody_writes_a_condition(self) -> None:
        self.world = write_status(self.world, self.world.status)

    @rule(text=st.sampled_from(RATIO_TEXTS))
    def a_user_sets_the_ratio(self, text: str) -> None:
        owned = names.AMPLIFICATION_ORIGINAL in self.world.notes
        name = names.AMPLIFICATION_ORIGINAL if owned else names.AMPLIFICATION_RATIO
        self.world = annotate(self.world, {name: text})

    @rule(text=st.sampled_from(RATIO_TEXTS))
    def a_user_sets_the_ratio_that_corewise_owns(self, text: str) -> None:
        self.world = annotate(self.world, {names.AMPLIFICATION_RATIO: text})

    @rule(original=st.booleans())
    def a_user_removes_the_ratio(self, original: bool) -> None:
        gone = [names.AMPLIFICATION_RATIO, *([names.AMPLIFICATION_ORIGINAL] if original else [])]
        self.world = annotate(self.world, dict.fromkeys(gone))

    @rule(ratio=st.sampled_from([None, Ratio(100), Ratio(143), Ratio(217)]))
    def normalization_decides(self, ratio: Ratio | None) -> None:
        self.world = replace(self.world, normalization=ratio)

    @rule(on=st.booleans())
    def capacity_is_amplified_or_not(self, on: bool) -> None:
        self.world = replace(self.world, amplify_capacity=on)

    @rule(owned=st.sampled_from([0, 1000, 3000]))
    def the_scheduler_binds(self, owned: int) -> None:
        self.world = scheduler_binds(self.world, owned)

    @rule()
    def the_agent_cannot_read_the_configuration_of_kubelet_or_can(self) -> None:
        self.world = replace(self.world, report_of_capacity_only=not self.world.report_of_capacity_only)

    @rule()
    def the_webhook_goes_or_comes(self) -> None:
        if self.world.webhook:
            fault("webhook away")
        self.world = replace(self.world, webhook=not self.world.webhook)

    @rule(name=st.sampled_from(KNOWLEDGE), text=st.sampled_from(GARBAGE))
    def an_annotation_is_damaged(self, name: str, text: str) -> None:
        if name in self.world.notes:
            fault("annotation damaged")
            self.world = annotate(self.world, {name: text})

    @rule(gone=st.sets(st.sampled_from(KNOWLEDGE), min_size=1))
    def annotations_are_removed(self, gone: set[str]) -> None:
        fault("annotation removed")
        self.world = annotate(self.world, dict.fromkeys(gone))

    @precondition(lambda self: any(name in self.world.notes for name in RECORD))
    @rule(capacity=st.booleans(), cells=st.sampled_from(["status", "machine"]))
    def raw_amounts_are_forged(self, capacity: bool, cells: str) -> None:
        fault("annotation forged")
        claim = self.world.status if cells == "status" else tuple(3 * a for a in self.world.machine)
        name, field = (names.RAW_CAPACITY, "capacity") if capacity else (names.RAW_ALLOCATABLE, "allocatable")
        text = print_amounts(amounts(claim).capacity if capacity else amounts(claim).allocatable)
        claims = [(i, amount) for i, amount in enumerate(claim) if CELLS[i][0] == field]
        self.world = forge(self.world, {name: text}, claims)

    @precondition(lambda self: any(name in self.world.notes for name in RECORD))
    @rule(ratio=st.sampled_from(RATIOS), raw=st.booleans())
    def the_record_is_forged(self, ratio: Ratio, raw: bool) -> None:
        fault("annotation forged")
        base = self.world.machine if raw else self.world.status
        forged: dict[str, str] = {}
        for (field, resource), amount in zip(CELLS, base, strict=True):
            forged[names.recorded_raw(field, resource)] = print_count(resource, amount)
            applied = print_count(resource, amplify(amount, ratio))
            forged[names.recorded_applied(field, resource)] = applied
        self.world = forge(self.world, forged, enumerate(base))

    @rule(seconds=st.sampled_from([0, PATIENT, LONG]), old_record=st.booleans())
    def the_manager_passes(self, seconds: int, old_record: bool) -> None:
        self.world = manager_passes(self.world, seconds=seconds, old_record=old_record)

    @rule()
    def the_node_is_registered_anew(self) -> None:
        world = annotate(self.world, dict.fromkeys(self.world.notes))
        status = world.machine
        world = replace(world, status=status, view=status, foreign=frozenset(), tainted=frozenset())
        self.world = replace(world, owned=0, folds=frozenset({0}))

    @rule(agent=st.booleans())
    def all_comes_to_rest(self, agent: bool) -> None:
        self.world = come_to_rest(self.world, agent=agent)

    @invariant()
    def nothing_is_amplified_twice(self) -> None:
        if hasattr(self, "world"):
            check(self.world)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            come_to_rest(self.world, agent=True)


def _left_by_koordinator() -> World:
    """Return a node whose allocatable Koordinator has amplified; it records no capacity."""
    status = (*MACHINE[:2], amplify(MACHINE[2], Ratio(137)), MACHINE[3])
    notes = {
        names.AMPLIFICATION_RATIO: '{"cpu":1.37}',
        names.RAW_ALLOCATABLE: print_amounts(amounts(MACHINE).allocatable),
    }
    return annotate(World(status=status), notes)


NodeHistory.TestCase.settings = settings(max_examples=HISTORIES, stateful_step_count=30, deadline=None)
TestNodeHistory = NodeHistory.TestCase
