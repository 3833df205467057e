"""Who requests corewise.io/interference: policy, evaluated, and webhook of older servers say the same.

pod                                           marked
its type label names a profile at stake       yes
a selector of such a profile selects it       yes
its profile has no affinity, below askAbove   no
it has no profile                             no
it owns CPUs by its class                     no: kube-scheduler asks about it anyway
of a DaemonSet; bound; names the resource     no
of a system priority                          no: it keeps the cluster alive, corewise too
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission_world import ADMIN, Objects, named, write
from corewise.config.interference.model import InterferenceConfiguration
from corewise.config.interference.reading import parse_interference
from corewise.scheduler.marking import (
    has_stake,
    is_missed,
    marked,
    mutating_policy,
    policy_binding,
    webhook_configuration,
)
from corewise.service.installation import client_config
from corewise.vocabulary.names import INTERFERENCE_RESOURCE, QOS_CLASS
from corewise.workload.pods import Pod
from kubedouble.admission import Admission
from kubedouble.mutating_policies import BINDINGS, POLICIES
from kubedouble.patching import json_patch

NONE = "{memorybandwidth: 0, memorylatency: 0, llc_occupancy: 0, llc_mpki: 0, cpu: 0}"
TEXT = f"""\
interference:
  typeLabel: app
  profiles:
    slowed: {{affinity: {{memorybandwidth: 0, memorylatency: 1, llc_occupancy: 0, llc_mpki: 0, cpu: 0}}}}
    hog: {{profile: {{memoryBandwidth: 5GB/s}}, affinity: {NONE}}}
    quiet: {{profile: {{memoryBandwidth: 1GB/s, cpu: 4}}, affinity: {NONE}}}
    tiered:
      profile: {{memoryBandwidth: 2GB/s}}
      affinity: {NONE}
      selector:
        matchExpressions:
        - {{key: tier, operator: In, values: [batch, ""]}}
        - {{key: team, operator: NotIn, values: [web]}}
        - {{key: example.com/heavy, operator: Exists}}
        - {{key: light, operator: DoesNotExist}}
"""


def configured(text: str = TEXT) -> InterferenceConfiguration:
    parsed = parse_interference(text)
    assert parsed.value, parsed.errors
    return parsed.value


def stored(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "metadata": {**document["metadata"], "resourceVersion": "1", "uid": "u"}}


WORLD = Objects(
    **{POLICIES: [stored(mutating_policy(configured()))], BINDINGS: [stored(policy_binding())]},
    namespaces=[named("default")],
)


async def by_policy(pod: dict[str, Any]) -> dict[str, Any]:
    admission = Admission(WORLD)
    try:
        attributes = write(ADMIN, "CREATE", "pods", "p", namespace="default")
        changed, _ = await admission.mutate(attributes, deepcopy(pod), None)
    finally:
        await admission.close()
    assert changed is not None
    return changed


def by_webhook(pod: dict[str, Any]) -> dict[str, Any]:
    text = msgspec.json.encode(pod)
    operations = marked(msgspec.json.decode(text, type=Pod), msgspec.Raw(text), configured())
    return json_patch(pod, msgspec.to_builtins(operations))


def a_pod(kind: str = "slowed", *, owner: str = "", labels: Any = None, **spec: Any) -> dict[str, Any]:
    own = {"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "u", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "default",
            "labels": {"app": kind, **(labels or {})},
            **({"ownerReferences": [own]} if owner else {}),
        },
        "spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}], **spec},
    }


def mark(pod: dict[str, Any]) -> list[str | None]:
    first, second = pod["spec"]["containers"]
    assert INTERFERENCE_RESOURCE not in str(second)
    return [
        first.get("resources", {}).get(each, {}).get(INTERFERENCE_RESOURCE) for each in ("requests", "limits")
    ]


NAMES_IT = {"name": "a", "image": "i", "resources": {"limits": {INTERFERENCE_RESOURCE: "0"}}}
TIERED = {"tier": "batch", "team": "x", "example.com/heavy": "no"}


@pytest.mark.parametrize(
    ("pod", "is_marked"),
    [
        (a_pod("slowed"), True),
        (a_pod("hog"), True),
        (a_pod("slowed", owner="ReplicaSet"), True),
        (a_pod("other", labels=TIERED), True),
        (a_pod("other", labels=TIERED | {"tier": ""}), True),
        (a_pod("other", labels={key: TIERED[key] for key in TIERED if key != "team"}), True),
        (a_pod("other", labels=TIERED | {"tier": "front"}), False),
        (a_pod("other", labels=TIERED | {"team": "web"}), False),
        (a_pod("other", labels=TIERED | {"light": ""}), False),
        (a_pod("other", labels={"tier": "batch"}), False),
        (a_pod("quiet"), False),
        (a_pod("other"), False),
        (a_pod("slowed", labels={QOS_CLASS: "BE"}), True),
        (a_pod("slowed", labels={QOS_CLASS: "LSR"}), False),
        (a_pod("slowed", owner="DaemonSet"), False),
        (a_pod("slowed", nodeName="n1"), False),
        (a_pod("slowed", priority=2_000_000_000), False),
        (a_pod("slowed", priority=1_000_000_000), True),
    ],
)
async def test_pods_with_a_stake_are_marked(pod: dict[str, Any], is_marked: bool) -> None:
    wanted = ["0", "0"] if is_marked else [None, None]
    assert mark(await by_policy(pod)) == mark(by_webhook(pod)) == wanted


@pytest.mark.parametrize("place", ["containers", "initContainers"])
async def test_whoever_names_the_resource_is_left_alone(place: str) -> None:
    pod = a_pod("slowed", initContainers=[{"name": "i", "image": "i"}])
    pod["spec"][place][-1] = {**NAMES_IT, "name": pod["spec"][place][-1]["name"]}
    assert await by_policy(pod) == by_webhook(pod) == pod


async def test_what_one_has_marked_the_other_leaves_alone() -> None:
    once = await by_policy(a_pod("slowed"))
    assert by_webhook(once) == once


KEYS = ("app", "tier", "team", "example.com/heavy", "light", QOS_CLASS)
VALUES = ("slowed", "hog", "quiet", "tiered", "batch", "web", "", "LSR", "BE")


@given(labels=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)), daemon=st.booleans())
async def test_policy_and_webhook_mark_the_same(labels: dict[str, str], daemon: bool) -> None:
    pod = a_pod(labels=labels, owner="DaemonSet" if daemon else "")
    pod["metadata"]["labels"] = labels
    assert await by_policy(pod) == by_webhook(pod)


@pytest.mark.parametrize(("away", "policy"), [("schedule", "Ignore"), ("wait", "Fail")])
def test_only_the_policy_fails_for_pods_that_wait(away: str, policy: str) -> None:
    settings = configured(f"{TEXT}  whileAway: {away}\n")
    assert mutating_policy(settings)["spec"]["failurePolicy"] == policy
    (hook,) = webhook_configuration(client_config("https://corewise", ""), settings)["webhooks"]
    assert hook["failurePolicy"] == "Ignore"


@pytest.mark.parametrize(("above", "names"), [("0", "hog quiet slowed tiered"), ("5GB/s", "slowed")])
def test_bandwidth_counts_above_the_threshold_alone(above: str, names: str) -> None:
    settings = configured(f"{TEXT}  askAbove: {above}\n")
    assert sorted(each.name for each in settings.at_stake) == names.split()


@pytest.mark.parametrize(("owner", "missed"), [("", True), ("ReplicaSet", True), ("Node", False)])
def test_static_pods_are_not_missed(owner: str, missed: bool) -> None:
    pod = msgspec.convert(a_pod("slowed", owner=owner, nodeName="n1"), Pod, strict=False)
    assert is_missed(pod, configured()) == missed


def test_nobody_has_a_stake_without_configuration() -> None:
    pod = msgspec.convert(a_pod("slowed"), Pod, strict=False)
    assert has_stake(pod, configured())
    assert not has_stake(pod, None)
    assert webhook_configuration(client_config("https://corewise", ""), None)["webhooks"] == []
