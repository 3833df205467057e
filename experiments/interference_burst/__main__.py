"""``python -m experiments.interference_burst [--print]``: runs it, and fills its page and its picture.

``--print`` writes nothing. It takes about half a minute.
"""

import sys

from experiments.interference_burst.telling import main

main(sys.argv[1:])
