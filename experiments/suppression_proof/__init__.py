"""The proof that suppression holds offline pods back and leaves online pods alone, as figures and pictures.

``python -m experiments.suppression_proof`` runs the agent's own code on simulated nodes, on this machine's
kernel with real busy processes, and on a kernel with cgroup v2 in a virtual machine; prints what came out;
and writes it to docs.
"""
