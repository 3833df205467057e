"""Rows and explanations of nodes, pods, suppression, interference and problems, decided once.

The command line and ``corewise top`` print them, the web page serves them. A view reads the cluster by the
scheduler's, the agent's and the manager's own readers, and knows no terminal.
"""
