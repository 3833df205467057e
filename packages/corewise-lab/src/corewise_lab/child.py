"""``python -m corewise_lab.child ARGUMENTS``: the corewise command, ended when the parent's pipe closes.

A child of the local cluster must not outlive it, not even a parent killed with -9. The kernel closes the
pipe that is the child's standard input in every case; the end of file is the sign. The child then gets
SIGTERM, and if that does not end it, it is gone after five seconds all the same.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

GRACE_SECONDS = 5.0


def end_with_parent() -> None:
    """Wait for the end of standard input, then end this process."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True, name="parent").start()
    from corewise.cli import main

    main(sys.argv[1:])
