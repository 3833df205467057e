"""``python -m experiments.interference_burst``."""

import sys

from experiments.interference_burst.telling import main

main(sys.argv[1:])
