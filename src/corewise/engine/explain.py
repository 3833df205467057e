"""A decision as a record for programs: in sum, and for each node what each plugin said, with its numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from corewise.engine.framework import Decision

_BEST_SHOWN = 5


def decision_record(decision: Decision) -> dict[str, Any]:
    """Return how many nodes suit the pod, why the others do not, and which are best."""
    rows = np.flatnonzero(decision.feasible)
    best = rows[np.argsort(-decision.total[rows], kind="stable")[:_BEST_SHOWN]].tolist()
    refusals = []
    for plugin, cause, nodes, row in decision.causes():
        message = cause.text(decision.verdicts[plugin].numbers(row))
        refusals.append(
            {
                "plugin": plugin,
                "reason": cause.reason.value,
                "summary": cause.summary,
                "nodes": nodes,
                "example": f"{decision.names[row]}: {message}",
            }
        )
    return {
        "pod": decision.pod.key,
        "nodesAsked": int(decision.asked.sum()),
        "nodesSuiting": len(rows),
        "refusals": refusals,
        "best": [{"node": decision.names[row], "score": int(decision.total[row])} for row in best],
    }


def node_records(decision: Decision, only: str = "") -> Iterator[dict[str, Any]]:
    """Yield each node, or one, with the verdicts of plugins that refused any; scores if it is feasible."""
    for row in np.flatnonzero(decision.asked).tolist():
        if only not in {"", decision.names[row]}:
            continue
        feasible = bool(decision.feasible[row])
        accounts = {name: account.of(row) for name, account in decision.accounts.items()}
        yield {
            "node": decision.names[row],
            "suits": feasible,
            "verdicts": [_verdict(decision, plugin, row) for plugin in decision.verdicts],
            "scores": {name: int(column[row]) for name, column in decision.scores.items()}
            if feasible
            else {},
            "total": int(decision.total[row]) if feasible else None,
            **({"accounts": accounts} if accounts else {}),
        }


def _verdict(decision: Decision, plugin: str, row: int) -> dict[str, Any]:
    verdicts = decision.verdicts[plugin]
    cause, numbers = verdicts.cause(row), verdicts.numbers(row)
    return {
        "plugin": plugin,
        "reason": cause.reason.value if cause else None,
        "message": cause.text(numbers) if cause else "",
        "inputs": numbers,
    }
