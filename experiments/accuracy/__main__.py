"""``python -m experiments.accuracy --help``."""

from experiments.accuracy.command import main

if __name__ == "__main__":
    main()
