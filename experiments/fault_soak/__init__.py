"""An hour of faults at the network between every two programs of a local cluster (``__main__.py``)."""
