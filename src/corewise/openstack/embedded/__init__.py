"""A whole Placement in this process: the real ``openstack-placement`` on SQLite, where there is no other.

It is Placement's own WSGI application, with its own schema and rules; nothing of it is imitated. Nobody is
authenticated: whoever can call it is an administrator, so it is served on the loopback interface only, or not
served at all (``calling.in_process_client``).

Nothing is exported from here.
"""
