"""The assessment of a node: what normalization and amplification decide together, and what to do about it.

Pure, and the same for the manager and for ``corewise nodes``, ``explain`` and ``plan``:

- :mod:`nodes`: the nodes and pods that are assessed, decoded;
- :mod:`cluster`: what applies to all nodes: the configuration, and Koordinator's webhook if it is installed;
- :mod:`decision`: the assessment itself, and the actions that follow from it.
"""
