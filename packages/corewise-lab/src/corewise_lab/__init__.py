"""The local cluster: a Kubernetes API server, simulated machines, and a plant that says what a CPU delivers.

Use it to try corewise, to demonstrate it, to test it, and to answer what-if questions. It needs Python and
nothing else, listens on 127.0.0.1 only, and is not for production. ``docs/guides/local-cluster.md``
explains it.
"""
