"""The parts that all programs share, whatever they do.

- :mod:`program`: supervised loops with heartbeats, leadership, health, and an end in order.
- :mod:`options`: options that programs share. :mod:`logs`: one line per event.
- :mod:`http_servers`: every HTTP server with its limits. :mod:`health`: /livez, /readyz and /metrics.
- :mod:`webhooks`, :mod:`certificates`: admission webhooks, their certificates, their configurations.

It knows adapters, and no capability.
"""
