"""Namespaces whose label normalize-cpuset is neither true nor false are reported, again if they change.

label of the namespace      reported
absent, true, false         no
True, yes, empty            an Event on the namespace, and the log
"""

from __future__ import annotations

import pytest

from corewise.kube.objects import Namespace, ObjectMeta
from corewise.kube.resources import EVENTS, NAMESPACES
from corewise.manager.namespace_labels import unread_labels
from corewise.vocabulary.names import NORMALIZE_CPUSET
from corewise.vocabulary.reasons import Reason
from manager.world import World, eventually, until


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (None, ""),
        ("true", ""),
        ("false", ""),
        ("True", "true"),
        ("yes", "true"),
        ("", "true"),
        ("No", "false"),
    ],
)
def test_only_true_and_false_are_read(value: str | None, meant: str) -> None:
    labels = {} if value is None else {NORMALIZE_CPUSET: value}
    found = [*unread_labels([Namespace(ObjectMeta(name="jobs", labels=labels))])]
    assert [(each.regarding_kind, each.name, each.warning) for each in found] == [
        ("Namespace", "jobs", True)
    ] * bool(meant)
    for each in found:
        assert f'{NORMALIZE_CPUSET}="{value}" is neither true nor false' in each.message
        assert each.message.endswith(f"kubectl label --overwrite namespace jobs {NORMALIZE_CPUSET}={meant}")


async def test_unread_label_is_an_event_and_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def told(text: str) -> bool:
        events = await world.client.list(EVENTS, "default")
        return any(
            each.reason == Reason.NORMALIZE_LABEL_INVALID
            and each.involved_object.kind == "Namespace"
            and text in each.message
            for each in events
        )

    body = {"metadata": {"name": "jobs", "labels": {NORMALIZE_CPUSET: "True"}}}
    await world.client.create(NAMESPACES, body)
    async with world.manager():
        await eventually(lambda: told('="True" is neither'))
        change = {"metadata": {"labels": {NORMALIZE_CPUSET: "yes"}}}
        await world.client.patch(NAMESPACES, "jobs", change)
        await until(lambda: '="yes" is neither true nor false' in caplog.text)
