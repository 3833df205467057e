"""``python -m tools.interference_burst [--print]``: runs it, and fills its page and its picture.

``--print`` writes nothing. It takes about half a minute.
"""

import sys

from tools.interference_burst.telling import main

main(sys.argv[1:])
