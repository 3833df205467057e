"""The Linux kernel as corewise sees it: cgroups, /proc and /sys; many readers, one writer.

Everything takes a root directory, so that the host seen from a container, a recorded tree and a simulated
node are read alike. Values that the kernel states are returned as they are; what follows from them is decided
elsewhere. Every error is a :class:`corewise.kernel.errors.KernelError` with path and errno.

Nothing is exported from here: a reader of /proc need not import the writer.
"""
