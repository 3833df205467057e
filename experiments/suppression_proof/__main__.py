"""``python -m experiments.suppression_proof [FLAG ...] [plant|real|virtual|bench ...]``.

Without names all of them run, about half an hour. ``--print`` writes nothing; ``--quick`` runs the step only,
each way once. ``--own-load`` counts as the node's usage only what runs in the proof's own cgroups: for a
machine that others use at the same time.

``latency --minutes N --out FILE`` measures the latency of an online service instead, and writes no page.
"""

import sys

from experiments.suppression_proof import latency, proof

if sys.argv[1:2] == ["latency"]:
    latency.main(sys.argv[2:])
else:
    proof.main(sys.argv[1:])
