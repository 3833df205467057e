"""The policy and the webhook are one rule: random histories of a node through both, without a difference.

A node, its kubelet, others who write its status, people who write its annotations, a ledger of owned CPUs and
a manager that repairs. Each write of nodes/status that the policy sees is also put to the webhook, as the
write came and as the policy has left it. What is stored must be the same amounts, annotations and times, and
the webhook must find nothing to do behind the policy.

COREWISE_EXPLORE=1 draws 10,000 histories instead of 200, in parts. Every case of single writes is in
test_amplification_every_case.py; here are the odd texts, and what one write leaves to the next.
"""

from __future__ import annotations

import copy
import os
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplification.both_rules import canonical, policy, policy_patch, webhook
from corewise.amplification.annotations import LONGEST, RECORD
from corewise.amplification.policy import amplification_policy
from corewise.quantities import Ratio
from corewise.vocabulary import names
from kubedouble.expressions import Inputs, is_available
from kubedouble.mutating_policies import _Program
from kubedouble.patching import json_patch

pytestmark = pytest.mark.skipif(not is_available(), reason="cel-expr-python is not installed")

PARTS = 50 if os.environ.get("COREWISE_EXPLORE") else 1
HISTORIES = 200
KUBELET, OTHER = "system:node:n1", "system:serviceaccount:kube-system:somebody"

RATIOS: Final = (
    *('{"cpu":2.00}', '{"cpu":1.37}', '{"cpu":1.61,"memory":1.29}', '{"memory":1.5}', '{"cpu":1.00}'),
    *("{}", "", "null", "{", "[]", '{"cpu":1,5}', '{"cpu":"1.5"}', '{"cpu":0.999,"memory":1.29}'),
    *('{"cpu":10}', '{"cpu":10.009}', '{"cpu":10.01,"memory":2}', '{"cpu":1.29999999999}', '{"cpu":1e1}'),
    *('{ "cpu" :\t2.5 ,\n"memory":1.1}', '{"nvidia.com/gpu":2,"cpu":1.2}', '{"x":"cpu","cpu":1.7}'),
    *('{"cpu":1.2,"cpu":2}', '{"a":1,"xcpu":3}', '{"cpu":2.00' + " " * LONGEST + "}", '{"c\\u0070u":2}'),
)
DAMAGED: Final = (
    *(
        "",
        "{",
        "{}",
        "null",
        "8",
        "16",
        "7910m",
        "-1",
        "1e3",
        "1e99",
        "x",
        "9" * 20,
        "0",
        "8.5",
        "64Gi",
        "1.5Gi",
    ),
    *('{"cpu":"8"}', '{"cpu":8,"memory":"32Gi"}', '{"cpu":"x","memory":"30Gi"}', '{"pods":"110"}'),
    *('{"memory":"1e3","a/b-c":"2"}', '{"cpu":"-1"}', '{"cpu":"5E"}', '{"cpu":{}}', "1" * 13, "2000"),
)
AMOUNTS: Final = {
    "cpu": ("4", "8", "7910m", "16", "15820m", "0", "333m", "12k", "10M"),
    "memory": ("32Gi", "31000000007", "65970697Ki", "64Gi", "0", "3Pi", "7Ei", "100Ti", "1k"),
}
KNOWLEDGE: Final = (*RECORD, names.RAW_CAPACITY, names.RAW_ALLOCATABLE)
MACHINES: Final = (
    ("8", "32Gi", "7910m", "31000000007"),
    ("16", "65970697Ki", "15820m", "62Gi"),
    ("8", "32Gi", "0", "0"),
)
CELLS: Final = tuple((field, name) for field in ("capacity", "allocatable") for name in ("cpu", "memory"))


class History:
    """One node and everybody who writes to it."""

    def __init__(self, random: Random, policy: _Program) -> None:
        self.random, self.policy = random, policy
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.machine = random.choice(MACHINES)
        self.stored: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1", "resourceVersion": "1", "annotations": {"other": "x"}},
            "spec": {"podCIDR": "10.0.0.0/24"},
            "status": {
                "conditions": [self.condition("Ready"), self.condition("DiskPressure")],
                "images": [{"names": ["a"]}],
                "nodeInfo": {"bootID": "b1"},
            },
        }
        self.state_raw(self.stored)
        self.annotations[names.AMPLIFICATION_RATIO] = random.choice(RATIOS[:4])
        if random.random() < 0.3:
            self.annotations[names.AMPLIFY_CAPACITY] = "false"
        for _ in range(random.choice((0, 0, 1, 3))):
            self.people()
        self.view = copy.deepcopy(self.stored["status"])
        self.said: list[str] = []

    @property
    def annotations(self) -> dict[str, str]:
        found: dict[str, str] = self.stored["metadata"]["annotations"]
        return found

    def condition(self, kind: str) -> dict[str, str]:
        return {"type": kind, "status": "True", "lastHeartbeatTime": self.now(), "reason": "x"}

    def now(self) -> str:
        return f"{self.time:%Y-%m-%dT%H:%M:%SZ}"

    def state_raw(self, node: dict[str, Any]) -> None:
        for (field, name), amount in zip(CELLS, self.machine, strict=True):
            node["status"].setdefault(field, {"pods": "110"})[name] = amount

    def step(self) -> None:
        self.time += timedelta(seconds=self.random.choice((1, 10, 10, 10, 100, 280)))
        often = (self.kubelet, self.kubelet, self.kubelet, self.other, self.touch, self.people, self.people)
        event = self.random.choice((*often, self.ledger, self.repair, self.hardware, self.loss))
        self.said.append(event.__name__)
        event()

    def kubelet(self) -> None:
        """Send what differs between its view, which may be stale, and the machine; and heartbeats."""
        if self.random.random() < 0.8:
            self.view = copy.deepcopy(self.stored["status"])
        new = copy.deepcopy(self.stored)
        for (field, name), amount in zip(CELLS, self.machine, strict=True):
            if self.view.get(field, {}).get(name) != amount:
                new["status"].setdefault(field, {})[name] = amount
        for condition in new["status"]["conditions"][: self.random.choice((2, 2, 2, 1))]:
            condition["lastHeartbeatTime"] = self.now()
        self.something_else(new, 0.1)
        self.write(new, self.random.choice((KUBELET, KUBELET, KUBELET, "system:node:n2")))

    def something_else(self, new: dict[str, Any], chance: float) -> None:
        if self.random.random() < chance:
            where, value = self.random.choice(
                (
                    (new["status"], {"images": [{"names": ["b"]}]}),
                    (new["status"], {"phase": "Running"}),
                    (new["status"]["conditions"][0], {"reason": self.now()}),
                    (new["status"]["capacity"], {"pods": "111"}) if "capacity" in new["status"] else ({}, {}),
                    (new["metadata"], {"labels": {"a": self.now()}}),
                    (new["metadata"], {"managedFields": [{"time": self.now()}]}),
                )
            )
            where |= value

    def other(self) -> None:
        new = copy.deepcopy(self.stored)
        for field, name in CELLS:
            if self.random.random() < 0.3:
                new["status"].setdefault(field, {})[name] = self.random.choice(AMOUNTS[name])
            elif self.random.random() < 0.05:
                new["status"].get(field, {}).pop(name, None)
        if self.random.random() < 0.05:
            new["status"].pop(self.random.choice(("capacity", "allocatable")), None)
        self.write(new, self.random.choice((OTHER, OTHER, KUBELET)))

    def touch(self) -> None:
        new = copy.deepcopy(self.stored)
        if self.random.random() < 0.5:
            new["metadata"]["annotations"] |= self.note()
            new["metadata"]["annotations"] = _present(new["metadata"]["annotations"])
        self.write(new, OTHER)

    def people(self) -> None:
        """Change annotations through ``nodes``, where neither policy nor webhook is called."""
        self.stored["metadata"]["annotations"] = _present({**self.annotations, **self.note()})

    def note(self) -> dict[str, str | None]:
        chance = self.random.random()
        if chance < 0.5:
            return {names.AMPLIFICATION_RATIO: self.random.choice((None, *RATIOS))}
        if chance < 0.6:
            return {names.AMPLIFY_CAPACITY: self.random.choice((None, "false", "true"))}
        name = self.random.choice((*KNOWLEDGE, names.RECORD_GENERATION, names.AMPLIFIED))
        nothing = "0" if name in RECORD else '{"cpu":"0","memory":"0"}'
        damaged = self.random.choice(DAMAGED)
        return {name: self.random.choice((None, nothing, damaged, damaged))}

    def ledger(self) -> None:
        new = copy.deepcopy(self.stored)
        owned = self.random.choice(("0", "1000", "4000", "2001", "x", "", "99000", "-1", "1" * 13))
        new["metadata"]["annotations"][names.OWNED_MILLI_CPU] = owned
        requests = self.random.choice((None, "0", "1000", "9000", "2001", "x", "", "99000", "-1", "1" * 13))
        new["metadata"]["annotations"][names.OWNED_REQUESTS] = requests
        new["metadata"]["annotations"] = _present(new["metadata"]["annotations"])
        self.write(new, OTHER)

    def repair(self) -> None:
        new = copy.deepcopy(self.stored)
        self.state_raw(new)
        for name in KNOWLEDGE:
            new["metadata"]["annotations"].pop(name, None)
        self.write(new, OTHER)

    def hardware(self) -> None:
        """Change the machine: also into what it was amplified to, in whole or in allocatable alone."""
        cpu, memory, *rest = (self.stored["status"].get(field, {}).get(name, "0") for field, name in CELLS)
        self.machine = self.random.choice((*MACHINES, (cpu, memory, *rest), ("64", "100Gi", *rest)))

    def loss(self) -> None:
        """Lose an amount while the policy is away."""
        field, name = self.random.choice(CELLS)
        self.stored["status"].get(field, {}).pop(name, None)

    def write(self, new: dict[str, Any], user: str) -> None:
        """Store a write of nodes/status; the policy is away for some."""
        if self.random.random() < 0.1:
            self.stored = new
            return
        old = self.stored
        by_policy = json_patch(copy.deepcopy(new), policy_patch(self.policy, new, old, user))
        by_webhook = json_patch(copy.deepcopy(new), webhook(new, old, user))
        assert canonical(by_policy) == canonical(by_webhook), (self.said, user, old, new)
        behind = canonical(by_policy, as_stored=True)
        assert webhook(behind, old, user) == [], (self.said, user, old, new)
        if self.random.random() < 0.3:
            assert policy_patch(self.policy, behind, old, user) == [], (self.said, user, old, new)
        self.stored = behind


def _present(notes: dict[str, str | None]) -> dict[str, str]:
    return {name: text for name, text in notes.items() if text is not None}


@pytest.mark.parametrize("part", range(PARTS))
@settings(max_examples=HISTORIES, deadline=None)
@given(number=st.integers(0, 2**64 - 1), length=st.integers(1, 9))
def test_policy_and_webhook_decide_every_write_alike(part: int, number: int, length: int) -> None:
    history = History(Random(f"{part} {number}"), policy())  # noqa: S311 - a history
    for _ in range(length):
        history.step()


def patched(document: dict[str, Any], new: dict[str, Any], old: dict[str, Any], user: str) -> dict[str, Any]:
    """Return the object that a policy stores for a write."""
    return json_patch(copy.deepcopy(new), policy_patch(_Program.of(document["spec"]), new, old, user))


def amplified_node() -> dict[str, Any]:
    history = History(Random(1), policy())  # noqa: S311 - a history
    history.stored["metadata"]["annotations"] = {names.AMPLIFICATION_RATIO: '{"cpu":2.00}'}
    history.machine = MACHINES[0]
    history.state_raw(history.stored)
    history.write(copy.deepcopy(history.stored), KUBELET)
    while names.RECORD_GENERATION not in history.annotations:
        history.write(copy.deepcopy(history.stored), KUBELET)
    return history.stored


def test_policy_fails_closed_and_matches_amplified_nodes_only() -> None:
    document, binding = amplification_policy(maximum=Ratio(1000))
    spec = document["spec"]
    assert (spec["failurePolicy"], spec["reinvocationPolicy"]) == ("Fail", "Never")
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (["nodes/status"], ["UPDATE"])
    assert binding["spec"] == {"policyName": document["metadata"]["name"]}
    conditions = policy().conditions
    for notes in ({}, {"other": "x"}, {names.OWNED_MILLI_CPU: "4000", names.RECORD_GENERATION: "7"}):
        node = {"metadata": {"name": "n", "annotations": notes}, "status": {}}
        assert not conditions.hold(Inputs({"object": node, "oldObject": node, "request": {}}))
    assert not conditions.hold(
        Inputs({"object": {"metadata": {"name": "n"}}, "oldObject": {}, "request": {}})
    )


def test_policy_takes_largest_ratio_and_kubelets_from_manager() -> None:
    node = amplified_node()
    node["metadata"]["annotations"][names.AMPLIFICATION_RATIO] = '{"cpu":12.00}'
    refused, allowed = (amplification_policy(maximum=Ratio(each))[0] for each in (1000, 1200))
    before = node["status"]["capacity"]["cpu"]
    assert patched(refused, node, node, OTHER)["status"]["capacity"]["cpu"] == before
    assert patched(allowed, node, node, OTHER)["status"]["capacity"]["cpu"] != before
    grown = copy.deepcopy(node)
    grown["metadata"]["annotations"][names.AMPLIFICATION_RATIO] = '{"cpu":2.00}'
    grown["status"]["capacity"]["cpu"] = "64"
    (own, _), (other, _) = (
        amplification_policy(maximum=Ratio(1000), kubelet_users=users) for users in (("kube:",), ("x",))
    )
    assert patched(own, grown, node, "kube:n1")["status"]["capacity"]["cpu"] == "128"
    assert patched(other, grown, node, "kube:n1")["status"]["capacity"]["cpu"] == before


@pytest.mark.parametrize("quiet", [True, False])
def test_heartbeats_can_be_stored_as_they_come(quiet: bool) -> None:
    old = amplified_node()
    raw = old["metadata"]["annotations"][names.recorded_raw("capacity", "cpu")]
    new = copy.deepcopy(old)
    new["status"]["capacity"]["cpu"] = raw
    new["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:01:00Z"
    document, _ = amplification_policy(maximum=Ratio(1000), quiet_heartbeats=quiet)
    assert (patched(document, new, old, KUBELET) == old) is quiet


def test_changed_uncounted_amount_is_no_quiet_heartbeat() -> None:
    """No machine has as much memory, so that neither amount is counted."""
    old = amplified_node()
    old["status"]["capacity"]["memory"] = "8Ei"
    new = copy.deepcopy(old)
    new["status"]["capacity"] |= {
        "cpu": old["metadata"]["annotations"][names.recorded_raw("capacity", "cpu")],
        "memory": "7Ei",
    }
    new["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:01:00Z"
    document, _ = amplification_policy(maximum=Ratio(1000))
    stored = patched(document, new, old, KUBELET)["status"]
    assert stored["conditions"] == new["status"]["conditions"]
    assert stored["capacity"] == {**old["status"]["capacity"], "memory": "7Ei"}


def test_amount_beside_unreadable_entry_never_becomes_raw() -> None:
    """The annotation stays for the sake of memory; what it names of cpu must not become raw then."""
    history = History(Random(1), policy())  # noqa: S311 - a history
    history.stored, history.machine = amplified_node(), MACHINES[0]
    history.annotations[names.RAW_ALLOCATABLE] = '{"cpu":"12k","memory":"x"}'
    history.annotations[names.AMPLIFICATION_RATIO] = '{"cpu":1.00,"memory":"x"}'
    for _ in range(3):
        history.write(copy.deepcopy(history.stored), OTHER)
        assert history.stored["status"]["allocatable"]["cpu"] == "7910m"
    assert names.recorded_raw("allocatable", "cpu") not in history.annotations


@pytest.mark.parametrize("field", ["capacity", "allocatable"])
def test_heartbeats_of_nodes_without_amounts_are_stored_directly(field: str) -> None:
    history = History(Random(1), policy())  # noqa: S311 - a history
    history.stored = amplified_node()
    del history.stored["status"][field]
    for second in range(10):
        new, time = copy.deepcopy(history.stored), f"2026-01-01T00:01:0{second}Z"
        for (each, name), amount in zip(CELLS, MACHINES[0], strict=True):
            if each != field:
                new["status"][each][name] = amount
        new["status"]["conditions"][0]["lastHeartbeatTime"] = time
        history.write(new, KUBELET)
        assert history.stored["status"]["conditions"][0]["lastHeartbeatTime"] == time


def test_zero_amount_is_restored_after_list_was_removed() -> None:
    old = amplified_node()
    old["status"]["allocatable"] = {"cpu": "0"}
    old["metadata"]["annotations"][names.recorded_raw("allocatable", "cpu")] = "unreadable"
    new = copy.deepcopy(old)
    del new["status"]["allocatable"]
    document, _ = amplification_policy(maximum=Ratio(1000))
    assert patched(document, new, old, OTHER)["status"]["allocatable"] == {"cpu": "0"}
