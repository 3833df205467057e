"""Whoever shows which tokens from where, and whatever the API server does meanwhile.

- A token lets in only while it is valid, and for ten seconds longer.
- Tokens that were never accepted cost a bounded number of reviews in any ten seconds, one address fewer.
- A valid token that was accepted before is let in whenever the API server answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from corewise.kube.client import Client
from corewise.kube.clock import Clock
from corewise.kube.errors import TransportError
from corewise.kube.resources import Resource
from corewise.service.health import (
    AT_A_TIME,
    REJECTED_OF_ONE_ADDRESS,
    REJECTED_TOKENS,
    REMEMBERED_ANSWERS,
    REMEMBERED_SECONDS,
    Access,
    PathAccess,
    ResourceAccess,
    TokenAccess,
)
from corewise.service.http_servers import RefusedError

METRICS = PathAccess("/metrics")
TOKENS = st.sampled_from(["scraper", "user"])
ADDRESSES = st.sampled_from(["10.0.0.1", "10.0.0.2"])
WAITS = st.sampled_from([0.0, 6.0, REMEMBERED_SECONDS])


class StoppedClock:
    """A clock that goes only when it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Reviews:
    """An API server that knows some tokens, whose users may read everything but what is named ``no...``."""

    def __init__(self) -> None:
        self.valid = {"scraper", "user"}
        self.is_down = False
        self.tokens: list[str] = []

    async def create(self, resource: Resource[Any], body: Mapping[str, Any]) -> Any:
        await asyncio.sleep(0)
        spec = body["spec"]
        if resource.kind == "TokenReview":
            self.tokens.append(spec["token"])
        if self.is_down:
            raise TransportError("the API server is away", sent=True)
        if resource.kind == "TokenReview":
            known = spec["token"] in self.valid
            return msgspec.convert({"status": {"authenticated": known}}, resource.type)
        namespace = spec.get("resourceAttributes", {}).get("namespace", "")
        return msgspec.convert({"status": {"allowed": not namespace.startswith("no")}}, resource.type)


class TokenHistories(RuleBasedStateMachine):
    """A port that takes tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = StoppedClock()
        self.api = Reviews()
        self.access = TokenAccess(cast("Client", self.api), cast("Clock", self.clock))
        self.accepted: set[str] = set()
        self.revoked: dict[str, float] = {}
        self.unknown: list[tuple[float, str]] = []
        self.number = 0
        self.runner = asyncio.Runner()

    def teardown(self) -> None:
        self.runner.close()

    async def _status(self, token: str, needed: Access, address: str) -> int:
        try:
            await self.access.require(token, needed, address=address)
        except RefusedError as refused:
            return refused.status
        return 200

    def ask(self, tokens: list[str], address: str) -> list[int]:
        async def all_at_once() -> list[int]:
            return await asyncio.gather(*(self._status(each, METRICS, address) for each in tokens))

        before = len(self.api.tokens)
        statuses = self.runner.run(all_at_once())
        reviewed = self.api.tokens[before:]
        self.accepted |= {token for token, status in zip(tokens, statuses, strict=True) if status == 200}
        self.unknown += [(self.clock.now, address) for each in reviewed if each not in self.accepted]
        return statuses

    @rule(token=TOKENS, address=ADDRESSES, after=WAITS, is_down=st.booleans())
    def show(self, token: str, address: str, after: float, is_down: bool) -> None:
        self.clock.now += after
        self.api.is_down = is_down
        known = token in self.accepted
        (status,) = self.ask([token], address)
        if status == 200:
            ended = self.revoked.get(token, self.clock.now)
            assert token in self.api.valid or self.clock.now < ended + REMEMBERED_SECONDS
        elif known and token in self.api.valid:
            assert (status, is_down) == (503, True)

    @rule(number=st.sampled_from([1, 20, 60, 100]), address=ADDRESSES, is_down=st.booleans())
    def guess(self, number: int, address: str, is_down: bool) -> None:
        self.api.is_down = is_down
        guesses = [f"guess-{self.number + each}" for each in range(number)]
        self.number += number
        assert 200 not in self.ask(guesses, address)

    @rule(token=TOKENS, address=ADDRESSES)
    def show_and_revoke(self, token: str, address: str) -> None:
        self.show(token, address, 0.0, is_down=False)
        self.api.valid.discard(token)
        self.revoked.setdefault(token, self.clock.now)

    @invariant()
    def unknown_tokens_cost_a_bounded_number_of_reviews(self) -> None:
        now = self.clock.now
        recent = [address for at, address in self.unknown if now < at + REMEMBERED_SECONDS]
        assert len(recent) < REJECTED_TOKENS + AT_A_TIME
        assert all(recent.count(each) < REJECTED_OF_ONE_ADDRESS + AT_A_TIME for each in recent)
        assert len(self.access._rejected) < REJECTED_TOKENS + AT_A_TIME


TestTokenHistories = TokenHistories.TestCase
TestTokenHistories.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)


def test_remembered_answers_are_small_and_few() -> None:
    histories = TokenHistories()

    async def ask_for_many() -> None:
        for number in range(REMEMBERED_ANSWERS + 20):
            start = "no" if number % 2 else ""
            needed = ResourceAccess("pods", namespace=f"{start}{'x' * 8000}{number}")
            assert await histories._status("user", needed, "") == (403 if start else 200)

    histories.runner.run(ask_for_many())
    histories.teardown()
    remembered = histories.access._remembered
    assert len(remembered) == REMEMBERED_ANSWERS
    kept = sum(len(a) + len(b) + len(str(refused)) for (a, b), (_, refused) in remembered.items())
    assert kept <= 600 * REMEMBERED_ANSWERS
