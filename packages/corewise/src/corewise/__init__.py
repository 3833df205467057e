"""corewise: one CPU in a request means the same on every node of a cluster."""

__version__ = "0.1.0"
"""The version of every distribution, chart and image; ``make generate`` writes it wherever it is repeated."""
