"""Exact arithmetic for CPU, memory and ratios, and Kubernetes quantities parsed and printed exactly.

Units are types: a raw milli-CPU is not an amplified one, and only the functions of this package turn one
into the other. Ratios are whole hundredths, shares whole ten-thousandths. No binary float takes part
anywhere.
"""

from corewise.quantities.quantity import (
    LARGEST_AMOUNT,
    LARGEST_MILLI,
    LONGEST_PERIOD,
    MILLI,
    AmplifiedMilli,
    Bytes,
    Microseconds,
    Quantity,
    QuantityError,
    RawMilli,
    Seconds,
    bounded,
    largest,
    offered,
    offered_amounts,
    requested,
    requested_amounts,
)
from corewise.quantities.ratio import (
    NOTHING,
    ONE,
    WHOLE,
    Ratio,
    RatioError,
    Share,
    ShareError,
    amplify,
    deamplified_ceil,
    ratio_product,
    ratio_quotient,
)

__all__ = [
    "LARGEST_AMOUNT",
    "LARGEST_MILLI",
    "LONGEST_PERIOD",
    "MILLI",
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
    "offered",
    "offered_amounts",
    "ratio_product",
    "ratio_quotient",
    "requested",
    "requested_amounts",
]
