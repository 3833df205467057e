"""Admission webhooks, whatever they decide: served on TLS, with certificates, and installed.

- :mod:`server`: HTTPS around reviews; :mod:`answers`: what a review is answered with.
- :mod:`authority`, :mod:`certificate`: certificates that the replicas share and renew, or files.
- :mod:`installation`: keeps webhook configurations as they should be.
- :mod:`options`: where they listen and how the API server reaches them.

All have failurePolicy Ignore: while no replica answers, the cluster goes on.
"""
