"""The two statements of the rule of amplification: the policy in CEL, and the webhook in Python."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from corewise.amplification.policy import amplification_policy
from corewise.kube.admission import decode_review
from corewise.manager.webhooks import NODE_STATUS
from corewise.quantities import Quantity, QuantityError, Ratio
from kubedouble.expressions import Inputs
from kubedouble.mutating_policies import _Program
from manager.reviews import body, patch_of, review, webhooks

HOOKS = webhooks()


@cache
def policy() -> _Program:
    document, _ = amplification_policy(maximum=Ratio(1000))
    return _Program.of(document["spec"])


def policy_patch(
    policy: _Program, new: dict[str, Any], old: dict[str, Any], user: str
) -> list[dict[str, Any]]:
    """Return the patch of the policy."""
    values = {"object": new, "oldObject": old, "request": {"userInfo": {"username": user}}}
    inputs = Inputs(values | {"namespaceObject": None}, policy.variables)
    if not policy.conditions.hold(inputs):
        return []
    (mutation,) = policy.mutations
    assert mutation is not None
    patch: list[dict[str, Any]] = mutation.evaluate(inputs)
    return patch


def webhook(new: dict[str, Any], old: dict[str, Any], user: str) -> list[dict[str, Any]]:
    """Return the patch of the webhook, which waits for nothing."""
    asked = decode_review(body(review(NODE_STATUS, new, old, user=user)))
    coroutine = HOOKS[NODE_STATUS](asked)
    try:
        coroutine.send(None)
    except StopIteration as answer:
        return patch_of(answer.value.body)
    raise AssertionError("the webhook waits")


def canonical(node: dict[str, Any], *, as_stored: bool = False) -> dict[str, Any]:
    """Return a node with amounts as the API server prints them; empty lists count as absent."""
    node = copy.deepcopy(node)
    for field in ("capacity", "allocatable"):
        amounts = node["status"].get(field, {})
        for name, text in amounts.items():
            try:
                amounts[name] = str(
                    Quantity.parse(str(text)) if as_stored else Quantity.parse(str(text)).nano
                )
            except QuantityError:
                amounts[name] = text
        if not amounts:
            node["status"].pop(field, None)
    return node
