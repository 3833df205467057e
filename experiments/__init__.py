"""Measurements behind the figures of the docs: how they were made, to be made again.

They use the same worlds, cgroups and processes as the tests.
"""

import tools  # noqa: F401 - finds the tests' modules
