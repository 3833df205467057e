"""Whose a cgroup is: no one who may create pods has the agent write into the cgroups of another pod.

A static pod's cgroup goes by the UID that its mirror in the API states, in an annotation that anybody may
write. ``attack`` states a victim's UID in all ways but kubelet's; a rival states a static pod's UID as
kubelet does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.fake_node import container, manifest
from agent.offline_node import GIB, OfflineNode, batch_container
from agent.pinning_node import PinNode, claim, pin_pod
from corewise.agent.cgroups import NodeCgroups
from corewise.agent.local_node import LocalNode
from corewise.agent.metrics import publish_quotas
from corewise.agent.objects import QuotaPod
from corewise.agent.offline_controller import OfflineController
from corewise.config.colocation import OversubscriptionSettings
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.writing.journal import MemoryLog
from corewise.prometheus.exposition import Exposition
from corewise.quantities import ONE
from corewise.suppression.offer import OfflineAmounts
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import AGENT, exported_by
from corewise.vocabulary.names import (
    NORMALIZATION_RATIO,
    OVERSUBSCRIPTION,
    QOS_CLASS,
    RESOURCE_STATUS,
    STATIC_POD,
    STATIC_POD_HASH,
    STATIC_POD_SOURCE,
)
from corewise.vocabulary.reasons import Reason

STATIC_UID = "0123456789abcdef" * 2
VICTIM_UID = "7d4f2a6e-1111-4222-8333-0123456789ab"
NODE_UID = "node-uid"
CONTROLLER = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": NODE_UID, "controller": True}


def as_kubelet_writes(uid: str = STATIC_UID) -> dict[str, str]:
    return {STATIC_POD: uid, STATIC_POD_HASH: uid, STATIC_POD_SOURCE: "file"}


def mirror(
    name: str,
    annotations: Mapping[str, str],
    owners: tuple[Mapping[str, Any], ...] = (CONTROLLER,),
    *containers: Mapping[str, Any],
    qos: str = "Burstable",
) -> QuotaPod:
    """A pod that says it is the mirror of a static pod."""
    body = manifest(name, *(containers or (container("a", "1"),)), annotations=annotations, qos=qos)
    body["metadata"]["ownerReferences"] = list(owners)
    return msgspec.convert(body, QuotaPod)


def with_uid(pod: QuotaPod, uid: str) -> QuotaPod:
    """The static pod itself, as kubelet knows it: for making its cgroups."""
    return msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, uid=uid, annotations={})
    )


FORGERIES: list[tuple[str, Mapping[str, str], tuple[Mapping[str, Any], ...]]] = [
    ("a UID of the API", as_kubelet_writes(VICTIM_UID), (CONTROLLER,)),
    ("such a UID as systemd writes it", as_kubelet_writes(VICTIM_UID.replace("-", "_")), (CONTROLLER,)),
    ("31 digits", as_kubelet_writes(STATIC_UID[:-1]), (CONTROLLER,)),
    ("a line break", as_kubelet_writes(STATIC_UID + "\n"), (CONTROLLER,)),
    ("capital digits", as_kubelet_writes(STATIC_UID.upper()), (CONTROLLER,)),
    ("a path", as_kubelet_writes("../../../etc"), (CONTROLLER,)),
    ("nothing", as_kubelet_writes(""), (CONTROLLER,)),
    ("no hash", {STATIC_POD: STATIC_UID, STATIC_POD_SOURCE: "file"}, (CONTROLLER,)),
    ("no source", {STATIC_POD: STATIC_UID, STATIC_POD_HASH: STATIC_UID}, (CONTROLLER,)),
    ("source api", {**as_kubelet_writes(), STATIC_POD_SOURCE: "api"}, (CONTROLLER,)),
    ("no owner", as_kubelet_writes(), ()),
    ("an owner that does not control it", as_kubelet_writes(), ({**CONTROLLER, "controller": False},)),
    ("another kind", as_kubelet_writes(), ({**CONTROLLER, "kind": "ReplicaSet"},)),
    ("another group", as_kubelet_writes(), ({**CONTROLLER, "apiVersion": "example.com/v1"},)),
    ("another Node", as_kubelet_writes(), ({**CONTROLLER, "name": "n2"},)),
    ("an earlier Node", as_kubelet_writes(), ({**CONTROLLER, "uid": "earlier"},)),
]


@pytest.fixture(params=Version)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> PinNode:
    node = PinNode(tmp_path, request.param)
    node.local.see({NORMALIZATION_RATIO: "2.00"}, NODE_UID)
    return node


def files(node: PinNode, pod: QuotaPod) -> list[tuple[int | None, str]]:
    """Quota and CPU set of a pod's cgroup and its container's."""
    return [(node.machine.quota(pod, name), node.cpus(node.cgroup(pod, name))) for name in ("", "a")]


def test_static_pod_mirror_uses_the_uid_from_kubelet(node: PinNode) -> None:
    of = mirror("static", as_kubelet_writes())
    assert of.uid == STATIC_UID
    node.start(of)
    assert node.cgroup(of).endswith(f"pod{STATIC_UID}.slice")
    assert not node.cycle(of).problems
    assert node.machine.quota(of, "a") == 50_000


def test_mirror_from_an_http_source_is_accepted_too() -> None:
    assert mirror("static", {**as_kubelet_writes(), STATIC_POD_SOURCE: "http"}).uid == STATIC_UID


@pytest.mark.parametrize(
    ("annotations", "owners"), [each[1:] for each in FORGERIES], ids=[f[0] for f in FORGERIES]
)
def test_what_kubelet_would_not_write_moves_nothing(
    node: PinNode, annotations: Mapping[str, str], owners: tuple[Mapping[str, Any], ...]
) -> None:
    victim = with_uid(pin_pod("victim"), VICTIM_UID)
    static = with_uid(mirror("static", {}), STATIC_UID)
    node.start(victim, static)
    before = files(node, victim), files(node, static)
    cycle = node.cycle(mirror("attack", annotations, owners, container("a", "10m")))
    assert Reason.MIRROR_POD_INVALID in cycle.problems["default/attack"]
    assert (files(node, victim), files(node, static)) == before
    assert cycle.written == []


def rivals(*containers: Mapping[str, Any]) -> tuple[QuotaPod, QuotaPod]:
    return (
        mirror("static", as_kubelet_writes()),
        mirror("rival", as_kubelet_writes(), (CONTROLLER,), *(containers or (container("a", "10m"),))),
    )


def test_two_pods_claiming_one_cgroup_get_no_writes(node: PinNode) -> None:
    static, rival = rivals()
    node.start(static)
    before = files(node, static)
    cycle = node.cycle(static, rival)
    assert cycle.written == []
    assert files(node, static) == before
    for name in ("static", "rival"):
        assert Reason.CGROUP_CONTESTED in cycle.problems[f"default/{name}"]
    exposition = Exposition(exported_by(AGENT))
    publish_quotas(node.local, [static, rival], exposition)
    assert f"\n{metrics.PODS_LEFT_ALONE.name} 2.0\n" in exposition.text().decode()


def test_contested_cgroup_keeps_its_values_until_rival_leaves(node: PinNode) -> None:
    owner = pin_pod("owner", claim("0"), qos="Guaranteed")
    static, rival = rivals()
    node.start(static, owner)
    node.cycle(static, owner)
    held = files(node, static)
    assert held[1] == (50_000, "1-7")
    for _ in range(2):
        cycle = node.cycle(static, owner, rival)
        assert (files(node, static), cycle.written) == (held, [])
        node.restart()
        node.local.see({NORMALIZATION_RATIO: "2.00"}, NODE_UID)
    node.local.see({NORMALIZATION_RATIO: "4.00"}, NODE_UID)
    node.cycle(static, owner, rival)
    assert files(node, static) == held
    node.cycle(static, owner)
    assert node.machine.quota(static, "a") == 25_000


def test_runtime_report_of_pods_never_replaces_the_api(
    node: PinNode,
) -> None:
    labels, annotations = {QOS_CLASS: "LSR"}, {RESOURCE_STATUS: claim("0-6"), STATIC_POD: VICTIM_UID}
    body = manifest("attack", container("a", "10m"), labels=labels, annotations=annotations)
    attack, web = msgspec.convert(body, QuotaPod), pin_pod("web")
    node.start(attack, web)
    before = node.cpus(node.cgroup(web, "a"))
    node.local.receive(QuotaPod(attack.metadata), [])
    cycle = node.cycle(attack, web)
    assert Reason.MIRROR_POD_INVALID in cycle.problems[attack.name]
    assert not node.local.pins.division.owners
    assert node.cpus(node.cgroup(web, "a")) == before


def test_a_rival_that_has_ended_contests_nothing(node: PinNode) -> None:
    static, rival = rivals()
    node.start(static)
    ended = msgspec.structs.replace(rival, status=msgspec.structs.replace(rival.status, phase="Failed"))
    assert not node.cycle(static, ended).problems
    assert node.machine.quota(static, "a") == 50_000


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize("uid", [VICTIM_UID, STATIC_UID], ids=["forged", "contested"])
def test_nobody_limits_the_memory_of_another_pod(tmp_path: Path, version: Version, uid: str) -> None:
    node = OfflineNode(tmp_path, version)
    victim = with_uid(mirror("victim", {}, (), qos="BestEffort"), uid)
    node.start(victim)
    tree = node.machine.files
    limit = "memory.max" if version is Version.V2 else "memory.limit_in_bytes"
    before = tree.read(node.machine.cgroup(victim), limit)
    local = LocalNode("n1", tmp_path, NodeCgroups(tmp_path, "/", MemoryLog(), now=lambda: 1.0))
    local.see({}, NODE_UID)
    controller = OfflineController(local, tmp_path)
    controller.configure(OversubscriptionSettings(), None)
    controller.observe({OVERSUBSCRIPTION: "true"}, OfflineAmounts(16_000, 60 * GIB), ONE)
    evil = batch_container("a", limit=10, memory=4096)
    attack = mirror("attack", as_kubelet_writes(uid), (CONTROLLER,), evil, qos="BestEffort")
    static = mirror("static", as_kubelet_writes(STATIC_UID), qos="BestEffort")
    assert not controller.settle(0.0, [attack, static]).written
    assert tree.read(node.machine.cgroup(victim), limit) == before
