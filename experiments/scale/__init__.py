"""``make scale``: manager and scheduler, two replicas each, on a local cluster of any size."""
