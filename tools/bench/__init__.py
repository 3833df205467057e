"""The measurements of `make bench`: each module measures one thing, and prints and returns rows for docs.

Machines are noisy: where a ratio says it, a ratio is given, and both of its sides come from one run.
"""
