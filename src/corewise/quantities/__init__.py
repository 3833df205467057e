"""Exact arithmetic for CPU, memory and ratios, and Kubernetes quantities parsed and printed exactly.

Units are types: a raw milli-CPU is not an amplified one, and only the functions of this package turn one
into the other. Ratios are whole hundredths, shares whole ten-thousandths. No binary float takes part
anywhere.
"""

from corewise.quantities.bounds import LARGEST_AMOUNT, LARGEST_MILLI, bounded, largest, requested
from corewise.quantities.quantity import Quantity, QuantityError
from corewise.quantities.ratio import ONE, Ratio, RatioError, amplify, deamplified_ceil, ratio_product
from corewise.quantities.share import NOTHING, WHOLE, Share, ShareError
from corewise.quantities.units import AmplifiedMilli, Bytes, Microseconds, RawMilli, Seconds

__all__ = [
    "LARGEST_AMOUNT",
    "LARGEST_MILLI",
    "NOTHING",
    "ONE",
    "WHOLE",
    "AmplifiedMilli",
    "Bytes",
    "Microseconds",
    "Quantity",
    "QuantityError",
    "Ratio",
    "RatioError",
    "RawMilli",
    "Seconds",
    "Share",
    "ShareError",
    "amplify",
    "bounded",
    "deamplified_ceil",
    "largest",
    "ratio_product",
    "requested",
]
