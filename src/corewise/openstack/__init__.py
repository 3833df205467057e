"""OpenStack as corewise sees it: Placement, nova.conf, libvirt. Needs the extra ``openstack`` or ``libvirt``.

``nova_conf`` reads the options of a compute host; ``placement`` is the client, ``embedded`` a whole Placement
in this process, and ``libvirt`` the machine and the guests of one host. Everything taken and returned is a
value of ``policy.placement``, ``actions.placement`` or ``topology``, or a struct of the module itself. What
fails is an :class:`corewise.openstack.errors.OpenStackError`. Calls block: a program with an event loop makes
them in a thread.

Nothing is exported from here: who reads domains of libvirt need not import Placement.
"""
