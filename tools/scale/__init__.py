"""``make scale``: manager and scheduler, two replicas each, beside as many nodes and pods as one asks for."""
