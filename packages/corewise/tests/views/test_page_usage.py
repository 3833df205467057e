"""What pods use: read while pages are open, with the most of each kept, and a remark where it is unknown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from corewise.kube.errors import Forbidden, KubeError, NotFound, Status, TransportError
from corewise.views.page.usage import EVERY, WANTED_SECONDS, Usages


@dataclass
class Hours:
    """A clock that a test moves."""

    now_seconds: float = 1000.0

    def monotonic(self) -> float:
        return self.now_seconds


@dataclass
class Answers:
    """A client that answers what a test says."""

    pods: dict[str, list[str]] = field(default_factory=dict)
    error: KubeError | None = None
    has_nodes: bool = True
    version: str = "v1beta1"

    async def request(self, _method: str, path: str, **_options: Any) -> bytes:
        if f"/{self.version}/" not in path:
            raise NotFound(Status(code=404))
        if path.endswith("/nodes"):
            if not self.has_nodes:
                raise TransportError("no answer")
            return msgspec.json.encode({"items": [{"metadata": {"name": "n1"}, "usage": {"cpu": "3500m"}}]})
        if self.error is not None:
            raise self.error
        items = [
            {
                "metadata": {"namespace": "ns", "name": name},
                "containers": [{"usage": {"cpu": each}} for each in amounts],
            }
            for name, amounts in self.pods.items()
        ]
        return msgspec.json.encode({"items": items})


def usages(answers: Answers, clock: Hours) -> Usages:
    return Usages(answers, clock)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", ["v1beta1", "v1"])
async def test_containers_are_added_up_and_the_most_kept(version: str) -> None:
    answers, clock = Answers({"a": ["250m", "1"], "b": ["10n"]}, version=version), Hours()
    found = usages(answers, clock)
    await found.read()
    assert found.nodes == {"n1": 3500}
    assert found.pods["ns/a"] == 1250
    answers.pods = {"a": ["1"]}
    for gap in (EVERY, 3600, 2 * EVERY):  # no page was open for an hour
        clock.now_seconds += gap
        await found.read()
    assert found.pods == {"ns/a": 1000}
    assert (found.most["ns/a"].milli, found.most["ns/a"].seconds) == (1250, 3 * EVERY)
    assert set(found.most) == {"ns/a"}


async def test_unknown_usage_is_said_and_the_last_stays() -> None:
    answers = Answers({"a": ["1"]})
    found = usages(answers, Hours())
    await found.read()
    assert found.remark == ""
    for error, said in (
        (NotFound(Status(code=404)), "has no metrics.k8s.io"),
        (Forbidden(Status(code=403)), "kubectl auth can-i list pods.metrics.k8s.io"),
    ):
        answers.error = error
        await found.read()
        assert said in found.remark
        assert found.pods == {"ns/a": 1000}


async def test_unread_usage_of_nodes_is_unknown() -> None:
    answers = Answers()
    found = usages(answers, Hours())
    await found.read()
    answers.has_nodes = False
    await found.read()
    assert found.nodes == {}


def test_usage_is_wanted_for_two_minutes() -> None:
    clock = Hours()
    found = usages(Answers(), clock)
    seen = [found.is_wanted]
    found.want()
    for seconds in (WANTED_SECONDS, 1):
        clock.now_seconds += seconds
        seen.append(found.is_wanted)
    assert seen == [False, True, False]
