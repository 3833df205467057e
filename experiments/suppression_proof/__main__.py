"""``python -m experiments.suppression_proof``."""

import sys

from experiments.suppression_proof import proof

proof.main(sys.argv[1:])
