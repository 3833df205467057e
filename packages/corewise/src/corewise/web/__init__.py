"""The web page of a cluster: :mod:`.server` serves it, ``assets`` holds what was built from ``web/``."""
