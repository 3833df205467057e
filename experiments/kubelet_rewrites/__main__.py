"""``python -m experiments.kubelet_rewrites``: see ``--help``."""

from __future__ import annotations

from experiments.kubelet_rewrites import command

if __name__ == "__main__":
    command.main()
