"""The data of the web page: rows and records as with ``-o json``, from caches that follow the cluster.

- :mod:`followed`: the caches; :mod:`history`: the last hour; :mod:`hosts`: what shows compute hosts;
- :mod:`tables`: the records that are sent; :mod:`problems`: those of everything that is wrong;
- :mod:`documents`: what is known of one node, pod or host;
- :mod:`what_if`: a change tried, in a process of its own (:mod:`trial`).
"""
