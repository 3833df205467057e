"""The program of one node: what its machine is, and the quotas that make the ratio real there.

Nothing is exported from here, so that parts of it load alone.
"""
