"""``python -m experiments.interference_cluster --help``."""

from experiments.interference_cluster.command import main

if __name__ == "__main__":
    main()
