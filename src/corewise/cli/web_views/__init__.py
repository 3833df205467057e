"""What the web page shows: rows and records as with ``-o json``, from caches that follow the cluster.

- :mod:`views`: the caches; tables and documents by name, for whoever serves them;
- :mod:`documents`: all that is known of one node and of one pod.
"""
