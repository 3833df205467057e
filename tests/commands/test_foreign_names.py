"""The names of Koordinator, Volcano and Nova: what the table says of each, against what the code reads.

name                                    where       value              listed
a name that corewise honors             anywhere    any                no
honored in part                         its place   a value that is    no
honored in part                         its place   one that is not    yes
known and not read                      its place   any                yes
unknown, of one of the domains          anywhere    any                yes
unknown key of one of their ConfigMaps  anywhere                       yes
of no one's domain                      anywhere    any                no
"""

from __future__ import annotations

from pathlib import Path

import pytest

from corewise.vocabulary.foreign_names import (
    COLOCATION_SWITCH,
    CONFIG_MAPS,
    FOREIGN_NAMES,
    UNREAD_KEYS,
    Fate,
    NamePlace,
    Project,
    unserved_key,
    unserved_name,
)
from corewise.vocabulary.names import CONFIG_NAME, CONFIG_NAMESPACE, TABLE, NameKind
from corewise_openstack.openstack.nova_conf import OPTIONS

DOMAINS = ("koordinator.sh/", "volcano.sh/")
UPSTREAM = Path(__file__).with_name("upstream_names.txt").read_text(encoding="utf-8").split()
"""Labels and annotations in the constants of Koordinator (commit a7a1b76) and Volcano (commit ed72c7c)."""
PLACES = {"Node": NamePlace.NODE, "Pod": NamePlace.POD, "NodeResourceTopology": NamePlace.TOPOLOGY}


def test_every_foreign_name_that_is_read_is_known() -> None:
    known = {(each.place, each.name) for each in FOREIGN_NAMES}
    read = {
        (PLACES[row.on], row.name)
        for row in TABLE
        if row.on in PLACES
        and row.kind is not NameKind.RESOURCE
        and row.name.partition("/")[0].endswith(tuple(domain[:-1] for domain in DOMAINS))
    }
    assert read - known == set()


def test_what_is_called_honored_is_read() -> None:
    read = {row.name for row in TABLE}
    kubernetes = {NamePlace.NODE, NamePlace.POD, NamePlace.TOPOLOGY, NamePlace.RESOURCE, NamePlace.CONFIG}
    called = {
        each.name.partition("/")[2] if each.place is NamePlace.CONFIG else each.name
        for each in FOREIGN_NAMES
        if each.fate is not Fate.NOT_READ and each.place in kubernetes
    }
    assert called - read == {COLOCATION_SWITCH}


def test_options_called_honored_are_those_read() -> None:
    read = {f"[{group}] {option}" for group, options in OPTIONS.items() for option in options}
    called = {
        each.name
        for each in FOREIGN_NAMES
        if each.place is NamePlace.OPTION and each.fate is not Fate.NOT_READ
    }
    assert called == read


def test_no_name_stands_twice_in_one_place() -> None:
    rows = [(each.project, each.place, each.name) for each in FOREIGN_NAMES]
    assert len(rows) == len(set(rows))


@pytest.mark.parametrize(
    ("name", "value", "place", "listed"),
    [
        ("koordinator.sh/qosClass", "LSR", NamePlace.POD, False),
        ("koordinator.sh/qosClass", "SYSTEM", NamePlace.POD, True),
        ("koordinator.sh/priority-class", "koord-batch", NamePlace.POD, False),
        ("koordinator.sh/priority-class", "koord-mid", NamePlace.POD, True),
        (
            "scheduling.koordinator.sh/resource-spec",
            '{"preferredCPUBindPolicy":"FullPCPUs"}',
            NamePlace.POD,
            False,
        ),
        (
            "scheduling.koordinator.sh/resource-spec",
            '{"requiredCPUBindPolicy":"ConstrainedBurst"}',
            NamePlace.POD,
            True,
        ),
        ("node.koordinator.sh/cpu-bind-policy", "FullPCPUsOnly", NamePlace.NODE, False),
        ("node.koordinator.sh/cpu-bind-policy", "SpreadByPCPUs", NamePlace.NODE, True),
        (
            "node.koordinator.sh/reservation",
            '{"reservedCPUs":"0","applyPolicy":"ReservedCPUsOnly"}',
            NamePlace.NODE,
            False,
        ),
        ("node.koordinator.sh/reservation", '{"reservedCPUs":"0"}', NamePlace.NODE, True),
        ("node.koordinator.sh/numa-allocate-strategy", "MostAllocated", NamePlace.NODE, True),
        ("gang.scheduling.koordinator.sh/name", "g", NamePlace.POD, True),
        ("volcano.sh/qos-level", "-1", NamePlace.POD, False),
        ("volcano.sh/preemptable", "true", NamePlace.POD, True),
        ("volcano.sh/oversubscription", "true", NamePlace.NODE, False),
        ("volcano.sh/oversubscription-types", "cpu", NamePlace.NODE, True),
        ("node.koordinator.sh/reservation", "{}", NamePlace.NODE, False),
        ("pod-group.scheduling.sigs.k8s.io", "g", NamePlace.POD, True),
        ("pod-group.scheduling.sigs.k8s.io/name", "g", NamePlace.POD, True),
        ("sla-waiting-time", "1h", NamePlace.POD, True),
        ("koordinator.sh/enable-colocation", "true", NamePlace.NAMESPACE, False),
        ("scheduling.volcano.sh/queue-name", "q", NamePlace.NAMESPACE, True),
        ("koordinator.sh/never-heard-of", "x", NamePlace.NODE, True),
        ("batch.volcano.sh/never-heard-of", "x", NamePlace.POD, True),
        ("node.corewise.io/owned-cpus", "x", NamePlace.NODE, False),
        ("notkoordinator.sh/x", "x", NamePlace.NODE, False),
        ("app.kubernetes.io/name", "volcano.sh", NamePlace.POD, False),
    ],
)
def test_names_on_objects_that_are_listed(name: str, value: str, place: NamePlace, listed: bool) -> None:
    row = unserved_name(name, value, place)
    assert (row is not None) is listed
    if row is not None:
        assert row.project in {Project.KOORDINATOR, Project.VOLCANO}


@pytest.mark.parametrize(
    ("config_map", "namespace", "key", "said"),
    [
        (CONFIG_NAME, CONFIG_NAMESPACE, "cpu-normalization-config", None),
        (CONFIG_NAME, CONFIG_NAMESPACE, "oversubscription-config", None),
        (CONFIG_NAME, CONFIG_NAMESPACE, "colocation-config", "oversubscription-config"),
        (CONFIG_NAME, CONFIG_NAMESPACE, "cpu-burst-config", "burst"),
        (CONFIG_NAME, "koordinator-system", "cpu-normalization-config", CONFIG_NAMESPACE),
        (CONFIG_NAME, CONFIG_NAMESPACE, "foo-config", "does not know this key"),
        ("koord-scheduler-config", "koordinator-system", "x", "does not know this key"),
        ("koord-descheduler-config", "koordinator-system", "x", "does not know this key"),
        ("koordlet-config", "koordinator-system", "x", "no counterpart"),
        ("pod-enhanced-validator-config", "koordinator-system", "x", "no counterpart"),
        ("volcano-agent-configuration", "volcano-system", "colocation-config", "cpuThrottlingConfig"),
        ("volcano-agent-configuration", "volcano-system", "other", "does not know this key"),
        ("volcano-agent-configuration", "volcano-system", "oversubscription-config", "does not know"),
        ("volcano-scheduler-configmap", "volcano-system", "x", "does not know this key"),
        ("volcano-sharding-configmap", "volcano-system", "sharding.yaml", "Volcano's own controllers"),
    ],
)
def test_keys_that_are_listed(config_map: str, namespace: str, key: str, said: str | None) -> None:
    assert config_map in CONFIG_MAPS
    row = unserved_key(config_map, namespace, key)
    assert (row is None) if said is None else (row is not None and said in row.instead)


@pytest.mark.parametrize("config_map", CONFIG_MAPS)
def test_unknown_keys_are_their_projects(config_map: str) -> None:
    row = unserved_key(config_map, CONFIG_NAMESPACE, "never-heard-of")
    assert row is not None
    assert row.fate is Fate.NOT_READ
    assert (row.project is Project.VOLCANO) is config_map.startswith("volcano-")


def test_the_config_map_may_be_elsewhere() -> None:
    key = "cpu-normalization-config"
    assert unserved_key(CONFIG_NAME, "mine", key, "mine") is None
    row = unserved_key(CONFIG_NAME, CONFIG_NAMESPACE, key, "mine")
    assert row is not None
    assert "namespace mine" in row.instead


def test_every_upstream_constant_is_in_the_table() -> None:
    assert [name for name in UPSTREAM if not any(each.names(name) for each in FOREIGN_NAMES)] == []


def test_the_agents_are_told_of_every_unread_key() -> None:
    assert sorted(UNREAD_KEYS) == [
        "colocation-config",
        "cpu-burst-config",
        "host-application-config",
        "system-config",
    ]
