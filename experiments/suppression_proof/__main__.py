"""``python -m experiments.suppression_proof [FLAG ...] [plant|real|virtual|bench ...]``.

Without names all of them run, about half an hour. ``--print`` writes nothing; ``--quick`` runs the step only,
each way once. ``--own-load`` counts as the node's usage only what runs in the proof's own cgroups: for a
machine that others use at the same time.
"""

import sys

from experiments.suppression_proof import proof

proof.main(sys.argv[1:])
