"""OpenStack's interfaces: Placement, nova.conf, libvirt. They need the extra ``openstack`` or ``libvirt``.

- :mod:`nova_conf`: the options of a compute host.
- :mod:`placement_access`: where Placement is, and with which credentials; :mod:`embedded`: one in this
  process.
- :mod:`placement_http`, :mod:`placement_client`, :mod:`placement_writes`: its requests, its typed API, and
  writes that are decided again after a conflict.
- :mod:`libvirt`, :mod:`libvirt_xml`: the machine and the guests of one host.

Arguments and results are values of ``vocabulary.placement``, ``actions.placement`` or ``topology``, or
structs of the module itself. Every failure is an :class:`corewise_openstack.openstack.errors.OpenStackError`.
Calls block: a program with an event loop makes them in a thread. Nothing is exported from here: a reader of
libvirt's domains need not import Placement.
"""
