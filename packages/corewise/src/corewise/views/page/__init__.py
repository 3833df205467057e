"""The data of the web page: rows and records as with ``-o json``, from caches that follow the cluster.

- :mod:`web_views`: the caches; tables and documents by name, for whoever serves them;
- :mod:`documents`: what is known of one node and of one pod; :mod:`hosts`: of compute hosts;
- :mod:`problems`: everything that is wrong; :mod:`history`: the last hour; :mod:`what_if`: a change tried,
  in a process of its own (:mod:`trial`).
"""
