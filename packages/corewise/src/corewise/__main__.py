"""``python -m corewise`` is the ``corewise`` command."""

from corewise.cli import main

main()
