"""The offline planner: all pods of a dump or a trace placed anew, on the scheduler's own engine.

- :mod:`inputs`: nodes and pods, wherever they were read from;
- :mod:`from_dump`, :mod:`from_openb`: where they may be read from;
- :mod:`nodes`: what a configuration makes of the nodes: their ratios and amplified amounts;
- :mod:`planner`: pods placed one after the other;
- :mod:`comparison`: two outcomes side by side.
"""
