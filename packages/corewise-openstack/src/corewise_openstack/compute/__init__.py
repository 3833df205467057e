"""The compute program: CPUs of OpenStack hosts, reported to Placement and given to guests.

- :mod:`machine_file`, :mod:`guest_files`: machines, flavors, images, providers and guests in files.
- :mod:`hosts`, :mod:`ledger`: hosts and their files; which guest holds which CPU, on disk.
- :mod:`offers`, :mod:`scheduling`, :mod:`verdicts`: from a request to CPUs of a host, or to counts.
- :mod:`adoption`: what the domains of libvirt mean for the ledger.
- :mod:`program`, :mod:`host_state`, :mod:`executor`, :mod:`offering`, :mod:`placement`: the host agent.
"""
