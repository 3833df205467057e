"""Programs for those who work on corewise: generated files, measurements, pictures.

Measurements with real processes use the same cgroups and processes as the tests (``real_load``).
"""

import sys
from pathlib import Path

_ROOT = Path(__file__).parents[1]
sys.path[:0] = map(str, (_ROOT / "tests/support", _ROOT / "tests", *sorted(_ROOT.glob("packages/*/tests"))))
