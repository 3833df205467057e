"""Least squares in which some of what is looked for cannot be negative. Pure.

What comes out negative is left out, the worst first, and the rest solved anew.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

_RIDGE = 1e-6
"""Of a column's mean square: enough to invert what cannot be told apart, and too little to matter else."""


def least_squares(target: Numbers, design: Numbers, *, free: int = 0) -> tuple[Numbers, Numbers]:
    """Return the solution and its standard errors; only the first ``free`` columns may count negatively.

    What is left out is 0, with the error that it last had.
    """
    solution, errors = np.zeros(design.shape[1]), np.zeros(design.shape[1])
    kept = list(range(design.shape[1]))
    while kept:
        found, error = _solved(target, design[:, kept])
        errors[kept] = error
        if (found[free:] >= 0).all():
            solution[kept] = found
            break
        kept.pop(free + int(found[free:].argmin()))
    return solution, errors


def _solved(target: Numbers, design: Numbers) -> tuple[Numbers, Numbers]:
    count, wide = design.shape
    squares = design.T @ design
    inverse = np.linalg.inv(squares + _RIDGE * np.diag(np.maximum(np.diag(squares), 1e-12)))
    found: Numbers = inverse @ design.T @ target
    rest = target - design @ found
    variance = float(rest @ rest) / max(1, count - wide)
    errors: Numbers = np.sqrt(variance * np.diag(inverse))
    return found, errors
