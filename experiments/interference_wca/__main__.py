"""``python -m experiments.interference_wca [--print] [--quick]``: run, and fill the page of figures.

``--print`` writes nothing; ``--quick`` has one order of arrival instead of ten.
"""

import sys

from experiments.interference_wca.page import main

main(sys.argv[1:])
