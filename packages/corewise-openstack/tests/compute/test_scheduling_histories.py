"""Whatever comes and goes, no CPU has two owners, nothing is lost, and what filters is what claims."""

from __future__ import annotations

import json
from functools import cache
from types import MappingProxyType

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from compute.compute_world import guest, machine, request, wanted
from corewise.config.machine_file import parse_machine
from corewise.topology import Host
from corewise_openstack.compute.hosts import ComputeHost, Hosts, settings_of
from corewise_openstack.compute.ledger import MemoryLedger
from corewise_openstack.compute.offers import LocalOffers, inventories
from corewise_openstack.compute.scheduling import GuestScheduler
from corewise_openstack.compute.verdicts import Placed, weighed
from corewise_openstack.tracking import Compat, HostOptions, HostSettings
from corewise_openstack.vocabulary.placement import PCPU, VCPU

OPTIONS = {
    "smt": HostOptions(cpu_dedicated_set="2-9,14-21", cpu_shared_set="10-13,22-23"),
    "no-smt": HostOptions(cpu_dedicated_set="1-4,7-10", cpu_shared_set="5,11"),
    "legacy": HostOptions(vcpu_pin_set="2-23"),
}
POLICIES = st.sampled_from([{}, {"hw:cpu_thread_policy": "isolate"}, {"hw:cpu_thread_policy": "require"}])
EMULATOR = st.sampled_from([{}, {"hw:emulator_threads_policy": "isolate"}])


@cache
def made_of(name: str) -> tuple[Host, HostSettings]:
    read = parse_machine(json.dumps(machine(cores=12, threads=1 if name == "no-smt" else 2))).value
    assert read is not None
    return read, settings_of(name, OPTIONS[name], read, Compat.SPEC)


def hosts() -> Hosts:
    known = {name: ComputeHost(name, *made_of(name), MemoryLedger(name)) for name in OPTIONS}
    return Hosts(MappingProxyType(known), MappingProxyType({}))


class Cloud(RuleBasedStateMachine):
    """Guests of all policies come and go."""

    guests = Bundle("guests")

    def __init__(self) -> None:
        super().__init__()
        self.hosts = hosts()
        self.scheduler = GuestScheduler(LocalOffers(self.hosts), self.hosts)
        self.number = 0

    @rule(target=guests, vcpus=st.integers(1, 8), policy=POLICIES, emulator=EMULATOR, pack=st.booleans())
    def come_with_cpus_of_its_own(
        self, vcpus: int, policy: dict[str, str], emulator: dict[str, str], pack: bool
    ) -> str:
        return self.place(vcpus, {"hw:cpu_policy": "dedicated", **policy, **emulator}, pack=pack)

    @rule(target=guests, vcpus=st.integers(1, 40))
    def come_to_share(self, vcpus: int) -> str:
        return self.place(vcpus, {}, pack=False)

    @rule(uuid=consumes(guests))
    def go(self, uuid: str) -> None:
        if self.hosts.having(uuid) is not None:
            self.scheduler.delete(uuid)
        assert self.hosts.having(uuid) is None

    def place(self, vcpus: int, extra_specs: dict[str, str], *, pack: bool) -> str:
        self.number += 1
        outcome = self.scheduler.schedule(
            *wanted(self.number, request(vcpus, extra_specs, ram=64), pack=pack)
        )
        if isinstance(outcome, Placed):
            assert outcome.lost == {}
            assert len(outcome.record.pins.cpus) == (vcpus if extra_specs else 0)
            if extra_specs.get("hw:cpu_thread_policy") == "isolate":
                assert outcome.host != "smt"
        return guest(self.number)

    @invariant()
    def no_cpu_has_two_owners_and_all_are_dedicated(self) -> None:
        for host in self.hosts.known.values():
            held = [cpu for record in host.guests().values() for cpu in record.pins.held]
            assert len(held) == len(set(held))
            assert set(held) <= set(host.settings.pinnable)
            assert host.ledger_with(host.guests()).conflicts == ()

    @invariant()
    def nothing_is_promised_beyond_what_is_offered(self) -> None:
        for host in self.hosts.known.values():
            for name, offered in inventories(host).items():
                held = sum(record.resources.get(name, 0) for record in host.guests().values())
                assert held <= offered.capacity


TestCloud = Cloud.TestCase
TestCloud.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 64), min_size=1), st.booleans())
def test_hosts_are_weighed_alike_in_any_order(free: dict[str, int], pack: bool) -> None:
    forward = weighed(free, None, pack=pack)
    assert forward == weighed(dict(reversed(free.items())), None, pack=pack)
    amounts = [each.free for each in forward]
    assert amounts == sorted(amounts, reverse=not pack)


def test_host_classes_follow_from_their_options() -> None:
    offered = {name: set(inventories(host)) & {VCPU, PCPU} for name, host in hosts().known.items()}
    assert offered == {name: {VCPU, PCPU} for name in OPTIONS}
