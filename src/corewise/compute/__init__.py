"""The compute program: dedicated and shared CPUs of OpenStack hosts, told to Placement and given to guests.

- :mod:`machine_file`, :mod:`guest_files`: machines, flavors and images as files say them.
- :mod:`ledger_file`: who holds which CPU of one host, on disk.
- :mod:`hosts`, :mod:`filtering`, :mod:`weighing`, :mod:`scheduling`: from a flavor to CPUs of a host.
- :mod:`reporting`, :mod:`program`: what the host agent tells Placement, once and in a loop.
- :mod:`reshaping`: pinned guests of a legacy host become consumers of PCPU.
"""
