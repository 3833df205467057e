"""Offline pods on one node: what they may use, that they keep to it, and what the cluster is told.

Counters are sampled (:mod:`sampler`), an offer is computed and published on a bus (:mod:`bus`), and what
listens there squeezes offline pods (:mod:`slice_suppression`, :mod:`pod_suppression`). :mod:`keeper` joins
it all, without waiting or talking to anybody; :mod:`publisher` talks to the API server.
"""
