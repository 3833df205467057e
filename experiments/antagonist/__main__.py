"""``python -m experiments.antagonist``: see ``--help``."""

from __future__ import annotations

from experiments.antagonist import command

if __name__ == "__main__":
    command.main()
