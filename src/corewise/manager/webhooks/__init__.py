"""What the API server asks of the manager: one module per webhook, each a function from review to answer.

- :mod:`node_status`: amplifies what is written to nodes/status, and keeps heartbeats quiet. The hot path.
- :mod:`node`: refuses unsafe or malformed changes of a node's ratios.
- :mod:`config_map`: refuses bad configuration.
- :mod:`server`: HTTPS around them.

All have failurePolicy Ignore: while no replica answers, the cluster goes on, and the manager mends it later.
"""
