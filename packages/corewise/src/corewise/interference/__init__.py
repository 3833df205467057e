"""Memory bandwidth and last-level cache: which nodes a pod's profile fits, and which suit it best. Pure.

A decision in order, every step over all nodes at once (a row per node, columns of float64, NaN is missing):

    pressure    Pressure: what was measured of the nodes; ``cleaned`` makes impossible values missing
    neighbors   Neighbors: how much the pods of nodes mind losing their cache; what a pod takes of it
    latency     LatencyHistory: each node's latency curve, learned from one snapshot after another
    outlook     Counterweights: pods placed so recently that measurements do not show them yet; Outlook: the
                nodes once they show. Made once per snapshot, and again when a counterweight changes or decays
    filtering   select_profile: a pod's profile and affinities by its labels, or a Conflict, which is a
                verdict; filter_nodes: both sides of an Inequality for bandwidth and one for memory
    score       score_nodes: raw and normalized scores of the nodes that passed (PreScore and Score);
                rank_nodes: the same with every position and all points, for people; node_record: as a
                document

The off-line analysis finds profiles and affinities in a recorded past: ``history`` and ``analysis``.

Amounts are bytes/s, bytes, seconds, CPUs as a share of the node's; see :mod:`corewise.config.interference`.

docs/guides/interference.md has the formulas.
"""
