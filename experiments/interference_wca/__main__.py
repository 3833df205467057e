"""``python -m tools.interference_wca [--print] [--quick]``: run, and fill docs/interference-experiments.md.

``--print`` writes nothing; ``--quick`` has one order of arrival instead of ten.
"""

import sys

from tools.interference_wca.page import main

main(sys.argv[1:])
