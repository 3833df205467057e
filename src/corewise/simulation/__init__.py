"""The local cluster: a Kubernetes API server, simulated machines, and a plant that says what a CPU delivers.

It exists to try corewise, demonstrate it, test it and ask what-if. It needs Python and nothing else,
listens on 127.0.0.1 only, and never claims to be a production cluster. How it works is told in
``docs/local-cluster.md``.
"""
