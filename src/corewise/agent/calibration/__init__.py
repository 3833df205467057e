"""Measuring a machine's CPU, and turning the results of several machines into normalization ratios.

``mix`` is the work, ``worker`` does it pinned to one CPU, ``crew`` holds the workers, ``measurement`` says
what is measured and when a measurement is good for nothing, ``results`` is what comes out, ``ratio_model``
what follows. docs/calibrate.md says what this does not measure.
"""
