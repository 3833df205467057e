"""The score of a node in ``corewise explain node``: what it is, and what it is compared with, or why not."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from corewise.views.node_score import NodeScore, node_score, score_part
from corewise.vocabulary.names import CPU_EVALUATION
from normalization.fleets import TIME, report

NOW = datetime.fromisoformat(TIME) + timedelta(hours=5)


def topologies(*scores: int, **changes: Any) -> dict[str, dict[str, str]]:
    """Return the annotations of nodes n0, n1 and so on; ``changes`` are of the score of n0 alone."""
    texts = [report(score, **({} if number else changes)) for number, score in enumerate(scores)]
    return {f"n{number}": {CPU_EVALUATION: each.encode()} for number, each in enumerate(texts)}


def lines(score: NodeScore | None, *, is_slow: bool = False) -> list[str]:
    return [f"{line.label}: {line.text}" for line in score_part(score, is_slow=is_slow).lines]


def test_score_is_shown_beside_that_of_peers() -> None:
    score = node_score("n0", topologies(900, 1000, 1000, 1010, 1020, kernel="6.12.9"), NOW)
    first, second = lines(score)
    assert first == "score: 900 of one CPU, median of 30 runs, the newest of 2026-11-01, kernel 6.12.9"
    assert second == (
        "peers: median 1005 of 4 other nodes like it: this one is 10.4 % slower; it does not count as slow"
    )
    assert lines(score, is_slow=True)[1].endswith("it counts as slow (SlowCPU)")
    record = score_part(score, is_slow=True).record["evaluation"]
    assert (record["score"], record["peers"], record["peersMedian"]) == (900, 4, 1005)
    assert (record["slowerBasisPoints"], record["isSlow"], record["leftOut"]) == (1044, True, None)


@pytest.mark.parametrize(
    ("score", "said"), [(1000, "this one is as fast;"), (1100, "this one is 10.0 % faster;")]
)
def test_peers_are_compared_in_both_directions(score: int, said: str) -> None:
    assert said in lines(node_score("n0", topologies(score, *[1000] * 4), NOW))[1]


@pytest.mark.parametrize(("peers", "age"), [(3, timedelta()), (9, timedelta(days=8))])
def test_score_without_peers_is_not_compared(peers: int, age: timedelta) -> None:
    score = node_score("n0", topologies(*[1000] * (peers + 1)), NOW + age)
    assert lines(score)[1].startswith("peers: not compared: ")
    assert score_part(score, is_slow=False).record["evaluation"]["peers"] is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"runs": 2}, "; left out, with fewer than 5 runs so far"),
        ({"cpu_model": ""}, "; left out, whose CPU model is unknown"),
        (
            {"score": 0, "runs": 0, "reason": "EvaluationStealTime", "message": "a hypervisor gave 2.0 %"},
            "score: none: EvaluationStealTime: a hypervisor gave 2.0 %",
        ),
    ],
)
def test_score_that_counts_for_nothing_says_why(changes: dict[str, Any], said: str) -> None:
    found = topologies(1000, *[1000] * 5)
    found["n0"] = {CPU_EVALUATION: report(**({"score": 1000} | changes)).encode()}
    (line,) = lines(node_score("n0", found, NOW))
    assert line.endswith(said)


def test_unreadable_report_is_said() -> None:
    score = node_score("n0", {"n0": {CPU_EVALUATION: "{"}}, NOW)
    assert lines(score) == ["score: left out, with a report that cannot be read"]


def test_node_without_report_has_no_line() -> None:
    score = node_score("n0", {"n1": topologies(1000)["n0"]}, NOW)
    assert lines(score) == []
    assert score_part(score, is_slow=False).record == {"evaluation": None}
