"""Namespaces whose label normalize-cpuset is neither true nor false are reported, again if they change.

label of the namespace      reported
absent, true, false         no
True, yes, empty            an Event on the namespace, and the log
that of many namespaces     the same: never more Events at a time than can wait to be written
"""

from __future__ import annotations

import asyncio

import pytest

from corewise.actions import EmitEvent
from corewise.kube.events import QUEUE_LENGTH
from corewise.kube.objects import Namespace, ObjectMeta
from corewise.kube.resources import EVENTS, NAMESPACES
from corewise.manager.namespace_labels import NamespaceLabels, unread_labels
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


async def test_every_namespace_has_its_event_however_many() -> None:
    many = 2 * QUEUE_LENGTH + 50
    labels = {NORMALIZE_CPUSET: "True"}
    namespaces = [Namespace(ObjectMeta(name=f"n{each}", labels=labels)) for each in range(many)]
    waiting: asyncio.Queue[EmitEvent] = asyncio.Queue(QUEUE_LENGTH)
    taken: set[str] = set()

    async def written() -> None:
        while not waiting.empty():
            taken.add(waiting.get_nowait().name)
        await asyncio.sleep(0)

    watch = NamespaceLabels(lambda: namespaces, waiting.put_nowait, written)
    looking = asyncio.create_task(watch.run())
    while len(taken) < many and not looking.done():
        await written()
    looking.cancel()
    assert taken == {each.metadata.name for each in namespaces}
