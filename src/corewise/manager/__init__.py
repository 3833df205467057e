"""``corewise manager``: brings every node to its normalization and amplification ratios, and keeps it there.

- :mod:`objects`, :mod:`view`: what is read of nodes and pods; one node as a value.
- :mod:`configuration`: the ConfigMap, and which configuration is in force when it is bad.
- :mod:`assessment`: the pure heart: a node and the configuration in, verdicts and actions out.
- :mod:`snapshot`: the caches. :mod:`reconciler`: which node is assessed when. :mod:`executor`: carries
  actions out.
- :mod:`webhooks`: what the API server asks of us. :mod:`authority`, :mod:`serving`, :mod:`installation`: the
  certificates for it.
- :mod:`program`: joins them in one TaskGroup.

The webhooks run on every replica; the reconciler on the one that holds the lease.
"""
