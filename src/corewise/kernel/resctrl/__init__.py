"""What resctrl counts: memory traffic and last-level cache of a whole machine, read and never written.

Source: the kernel's Documentation/filesystems/resctrl.rst.
"""
