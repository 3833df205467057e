"""Why a node is refused for the sake of memory bandwidth, in words with its numbers."""

from __future__ import annotations

from corewise.engine.framework import Cause, Inputs
from corewise.engine.interference_account import amount
from corewise.vocabulary.reasons import Reason


def _short_of_bandwidth(numbers: Inputs) -> str:
    free, needed = amount(numbers["free_bandwidth"], "/s"), amount(numbers["needed_bandwidth"], "/s")
    parts = ", ".join(
        f"{name.replace('_', ' ')} {amount(numbers[key], '/s')}"
        for name, key in (
            ("capacity", "bandwidth_capacity"),
            ("used", "bandwidth_used"),
            ("pods just placed", "bandwidth_counterweights"),
        )
    )
    return f"needs more than {needed} of free memory bandwidth, {free} is free ({parts})"


def _short_of_memory(numbers: Inputs) -> str:
    free, needed = amount(numbers["free_memory"]), amount(numbers["needed_memory"])
    placed = amount(numbers["memory_counterweights"])
    return f"needs more than {needed} of available memory, {free} is left ({placed} for pods just placed)"


def _unknown_bandwidth(numbers: Inputs) -> str:
    missing = [
        name
        for name, key in (("its capacity", "bandwidth_capacity"), ("what is used", "bandwidth_used"))
        if key not in numbers
    ]
    return f"its free memory bandwidth is unknown: {' and '.join(missing)} is missing or too old"


SHORT_OF_BANDWIDTH = Cause(
    Reason.MEMORY_BANDWIDTH_INSUFFICIENT, "Insufficient free memory bandwidth", message=_short_of_bandwidth
)
SHORT_OF_MEMORY = Cause(
    Reason.MEMORY_AVAILABLE_INSUFFICIENT, "Insufficient available memory", message=_short_of_memory
)
UNKNOWN_BANDWIDTH = Cause(
    Reason.PRESSURE_UNKNOWN, "free memory bandwidth unknown", hopeless=True, message=_unknown_bandwidth
)
UNKNOWN_MEMORY = Cause(
    Reason.PRESSURE_UNKNOWN, "its available memory is unknown: missing or too old", hopeless=True
)
