"""A plugin of the container runtime (containerd, CRI-O), by the Node Resource Interface, NRI.

Nothing is exported from here: a program that wants the messages alone need not import protobuf.
"""
