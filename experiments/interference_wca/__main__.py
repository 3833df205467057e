"""``python -m experiments.interference_wca``."""

import sys

from experiments.interference_wca.page import main

main(sys.argv[1:])
