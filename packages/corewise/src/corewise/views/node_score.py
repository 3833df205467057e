"""The score that a node's agent measured, beside those of its peers, for ``corewise explain node``.

Peers are those of :mod:`corewise.normalization.slow_nodes`. Whether a node counts as slow is not decided
here: that takes the scores of several days, which the manager remembers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from corewise.normalization.calibration import percent
from corewise.normalization.fleet import LeftOut, ScoredNode
from corewise.normalization.slow_nodes import LEAST_PEERS, Peers, peers_of
from corewise.ratios.nodes import Annotations, read_scores
from corewise.views.explanation import Line, Part
from corewise.views.text import count
from corewise.vocabulary.evaluation_report import EvaluationReport, decode
from corewise.vocabulary.names import CPU_EVALUATION


@dataclass(frozen=True, slots=True)
class NodeScore:
    """A node's report, None if it cannot be read; why its score does not count, None if it does; its peers.

    ``peers`` is None where there are too few, or the score is too old to compare.
    """

    report: EvaluationReport | None
    left_out: LeftOut | None = None
    peers: Peers | None = None


def node_score(name: str, topologies: Mapping[str, Annotations], now: datetime) -> NodeScore | None:
    """Return the score of a node; None if its agent has reported none.

    ``topologies``: the annotations of NodeResourceTopologies by node.
    """
    stated = topologies.get(name, {})
    text = stated.get(CPU_EVALUATION)
    if text is None:
        return None
    ((_, own),) = read_scores([(name, stated)])
    if isinstance(own, LeftOut):
        return NodeScore(decode(text), own)
    every = [each for _, each in read_scores(topologies.items()) if isinstance(each, ScoredNode)]
    return NodeScore(own.report, peers=peers_of(name, every, now))


def score_part(score: NodeScore | None, *, is_slow: bool) -> Part:
    """Explain the score; ``is_slow``: the node has the condition SlowCPU."""
    if score is None:
        return Part({"evaluation": None})
    report, peers = score.report, score.peers
    record = {
        "score": report.score if report else None,
        "runs": report.runs if report else None,
        "measured": (report.measured or None) if report else None,
        "kernel": report.kernel if report else None,
        "leftOut": score.left_out.name if score.left_out else None,
        "peers": peers.count if peers else None,
        "peersMedian": peers.median if peers else None,
        "slowerBasisPoints": peers.slower if peers else None,
        "isSlow": is_slow,
    }
    return Part({"evaluation": record}, [Line("score", _score(score)), *_peers(score, is_slow=is_slow)])


def _score(score: NodeScore) -> str:
    report = score.report
    if report is None:
        return f"left out, {score.left_out}"
    if score.left_out is LeftOut.NOT_MEASURED and report.reason:
        return f"none: {report.reason}: {report.message}"
    day = (report.measured or report.time).partition("T")[0]
    text = f"{report.score} of one CPU, median of {count(report.runs, 'run')}, the newest of {day}"
    text += f", kernel {report.kernel}" if report.kernel else ""
    return f"{text}; left out, {score.left_out}" if score.left_out else text


def _peers(score: NodeScore, *, is_slow: bool) -> list[Line]:
    if score.left_out is not None:
        return []
    peers = score.peers
    if peers is None:
        why = f"the score is older than a week, or fewer than {LEAST_PEERS} nodes like it have one"
        return [Line("peers", f"not compared: {why}")]
    difference = f"{percent(abs(peers.slower))} {'slower' if peers.slower > 0 else 'faster'}"
    what = difference if peers.slower else "as fast"
    slow = "it counts as slow (SlowCPU)" if is_slow else "it does not count as slow"
    text = f"median {peers.median} of {count(peers.count, 'other node')} like it: this one is {what}"
    return [Line("peers", f"{text}; {slow}")]
