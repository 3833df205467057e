"""``corewise manager``: brings every node to its normalization and amplification ratios, and keeps it there.

- :mod:`snapshot`: the caches. :mod:`reconciler`: which node is assessed when; :mod:`corewise.ratios`
  decides, :mod:`executor` carries the actions out, :mod:`reporting` has the gauges and the Events about the
  configuration.
- :mod:`node_status_webhook`, :mod:`node_webhook`, :mod:`webhooks`: the reviews that the API server asks for.
- :mod:`program`: joins them in one TaskGroup.

The webhooks run on every replica; the reconciler on the one that holds the lease.
"""
