"""Exact arithmetic for CPU, memory and ratios, and Kubernetes quantities parsed and printed exactly.

Units are types: a raw milli-CPU is not an amplified one, and only the functions of this package turn one
into the other. Ratios are whole hundredths. No binary float takes part anywhere.
"""

from corewise.quantities.quantity import Quantity, QuantityError
from corewise.quantities.ratio import ONE, Ratio, RatioError, amplify, deamplified_ceil, ratio_product
from corewise.quantities.units import AmplifiedMilli, Bytes, Microseconds, RawMilli, Seconds

__all__ = [
    "ONE",
    "AmplifiedMilli",
    "Bytes",
    "Microseconds",
    "Quantity",
    "QuantityError",
    "Ratio",
    "RatioError",
    "RawMilli",
    "Seconds",
    "amplify",
    "deamplified_ceil",
    "ratio_product",
]
