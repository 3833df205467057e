"""One compute host as its libvirt sees it: the machine, and the CPUs of its guests.

``capabilities`` and ``domains`` read documents, ``tuning`` writes the CPUs of a guest into one; they are pure
and need no library. ``connection`` needs the extra ``libvirt``.

Nothing is exported from here.
"""
