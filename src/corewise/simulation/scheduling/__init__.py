"""The local cluster's scheduler: the engine of ``corewise scheduler``, over the API's own state.

- :mod:`queue`: which pod's turn it is, and when one that found no node is tried again;
- :mod:`engine`: the plugins, and the choice of a node for one pod;
- :mod:`scheduler`: the loop that follows the API, decides, binds and says why not.
"""

from corewise.simulation.scheduling.scheduler import LocalScheduler

__all__ = ["LocalScheduler"]
