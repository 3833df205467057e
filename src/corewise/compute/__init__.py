"""The compute program: dedicated and shared CPUs of OpenStack hosts, told to Placement and given to guests.

- :mod:`machine_file`, :mod:`guest_files`, :mod:`provider_file`: machines, flavors, providers in files.
- :mod:`hosts`: hosts and their files; :mod:`ledger_file`, :mod:`records`: who holds which CPU, on disk.
- :mod:`offers`: who offers hosts: :mod:`placement_offers`, or without one :mod:`local_offers`.
- :mod:`scheduling`, :mod:`settling`, :mod:`weighing`, :mod:`verdicts`: from a request to CPUs of a host, or
  to counts; :mod:`local_pinning`, :mod:`domains`: on a host that was chosen otherwise, and for libvirt.
- :mod:`offering`, :mod:`reporting`, :mod:`moves`: what a host is to have in Placement, and its upgrade.
- :mod:`program`, :mod:`host_state`, :mod:`adoption`: the host agent.
"""
