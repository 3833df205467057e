"""The one word that says how a node is, from its assessment."""

from __future__ import annotations

from dataclasses import dataclass

from corewise.actions import PatchNode
from corewise.amplification import State
from corewise.assessment.decision import NodeAssessment
from corewise.cli.offline_reports import SUPPRESSING, NodeReport, offer_problem, suppression_state
from corewise.vocabulary.reasons import Reason


@dataclass(frozen=True, slots=True)
class NodeState:
    """``text`` for the STATE column; ``problem`` is the reason code of the first warning verdict, if any."""

    text: str
    problem: str = ""


def state_of(assessment: NodeAssessment) -> NodeState:
    """Return the state: a problem first, then what is under way; empty when all is as it should be."""
    if assessment.held_back:
        return NodeState("held back", Reason.UNSAFE_DECREASE_HELD_BACK)
    if assessment.problems:
        reason = assessment.problems[0].reason
        return NodeState(reason, reason)
    if any(isinstance(action, PatchNode) for action in assessment.actions):
        return NodeState("ratio due")
    if assessment.status.state is not State.SETTLED:
        return NodeState(assessment.status.state.value)
    return NodeState("")


def offline_state_of(node: NodeReport) -> NodeState:
    """Return the state of a node's offline pods: what is wrong with the offer first, then suppression."""
    report = node.report
    if report is None:
        return NodeState("")
    problem = offer_problem(report)
    if problem:
        return NodeState(problem, problem)
    if node.stale:
        return NodeState("offline data old")
    return NodeState(SUPPRESSING if suppression_state(report) == SUPPRESSING else "")
