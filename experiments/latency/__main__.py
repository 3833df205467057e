"""``python -m experiments.latency``: see ``--help``."""

from __future__ import annotations

from experiments.latency import command

if __name__ == "__main__":
    command.main()
