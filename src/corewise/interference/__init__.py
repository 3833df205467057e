"""Memory bandwidth and last-level cache: which nodes a pod's profile fits, and which suit it best. Pure.

The way of a decision, every step over all nodes at once (a row per node, columns of float64, NaN is missing):

    Pressure            what was measured of the nodes; ``cleaned`` makes missing what cannot be
    Counterweights      pods placed so recently that measurements don't show them; ``at(now, size)``: Weights
                        (who keeps these pods elsewhere makes Weights of sums weighed by ``shares(ages)``)
    Outlook             both together, as they are when those pods show; the same for every pod
    select_profile      the profile and affinities of a pod, by its labels; or a Conflict, which is a verdict
    filter_nodes        an Inequality for bandwidth and one for memory, both sides of each
    score_nodes         raw and normalized score of the nodes that passed (which is PreScore and Score)
    rank_nodes          the same with every position and all points, for people
    node_record         all of that about one node, as a document

Who holds what: an Outlook is made once for a metrics snapshot and again when a counterweight comes, goes, or
decays; everything that depends on a pod takes an Outlook. LatencyHistory learns each node's latency curve
from one snapshot after another. Profiles that no node can take are found by ``unplaceable``.

Amounts are bytes/s, bytes, seconds, CPUs as a share of the node's; see :mod:`corewise.config.interference`.

Source: design/interference.md; the seed memory-bandwidth-llc-scheduling.
"""

from corewise.interference.counterweights import Counterweights, Weights, shares
from corewise.interference.filtering import Filtered, Inequality, filter_nodes
from corewise.interference.latency import LatencyHistory, predicted_latency
from corewise.interference.outlook import Outlook, outlook
from corewise.interference.placeable import Unplaceable, unplaceable
from corewise.interference.pressure import COLUMNS, Flags, Pressure, Values
from corewise.interference.ranking import award, positions
from corewise.interference.record import node_record, plain
from corewise.interference.score import Ranked, Scores, rank_nodes, score_nodes
from corewise.interference.selection import Conflict, PodRequests, Selected, select_profile

__all__ = [
    "COLUMNS",
    "Conflict",
    "Counterweights",
    "Filtered",
    "Flags",
    "Inequality",
    "LatencyHistory",
    "Outlook",
    "PodRequests",
    "Pressure",
    "Ranked",
    "Scores",
    "Selected",
    "Unplaceable",
    "Values",
    "Weights",
    "award",
    "filter_nodes",
    "node_record",
    "outlook",
    "plain",
    "positions",
    "predicted_latency",
    "rank_nodes",
    "score_nodes",
    "select_profile",
    "shares",
    "unplaceable",
]
