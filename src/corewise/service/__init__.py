"""What the programs have in common, whatever they do: supervised loops, log lines, health and metrics served.

- :mod:`supervision`: loops that outlive their bugs, and their heartbeats. :mod:`logs`: one line per event.
- :mod:`health`: /livez, /readyz and /metrics. :mod:`listening`, :mod:`options`: addresses.
- :mod:`webhooks`: admission webhooks with their certificates and installed configurations.

It knows adapters, and no capability.
"""
