"""Programs for those who work on corewise: generated files, measurements, pictures.

Measurements with real processes use the same cgroups and processes as the tests (``real_load``).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
