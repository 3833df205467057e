"""One option's text to its value. What is wrong is appended to a list, and the value is then None."""

from __future__ import annotations

import re
from decimal import Decimal

from corewise.policy.reasons import Reason
from corewise.topology import CPUSet, CPUSetError, NoCPULeftError
from corewise.tracking.options import OptionProblem

_RATIO = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,9})?")
_COUNT = re.compile(r"[0-9]{1,9}")
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


def text_of(value: str | None) -> str | None:
    """Return the text without the spaces around it; None if nothing is left."""
    return (value or "").strip() or None


def cpu_set(option: str, value: str | None, errors: list[OptionProblem]) -> CPUSet | None:
    """Read a set of CPUs; None if the option is unset."""
    text = text_of(value)
    if text is None:
        return None
    try:
        cpus = CPUSet.parse(text)
    except CPUSetError as error:
        empty = isinstance(error, NoCPULeftError)
        reason = Reason.CPU_SET_LEAVES_NOTHING if empty else Reason.CPU_SET_MALFORMED
        errors.append(OptionProblem(reason, option, text, str(error)))
        return None
    if not cpus:
        errors.append(OptionProblem(Reason.CPU_SET_LEAVES_NOTHING, option, text, "it names no CPU"))
        return None
    return cpus


def ratio(option: str, value: str | None, errors: list[OptionProblem]) -> Decimal | None:
    """Read a ratio above 0, exactly as it is written; None if the option is unset."""
    text = text_of(value)
    if text is None:
        return None
    if not _RATIO.fullmatch(text) or not Decimal(text):
        why = "a ratio is a decimal number above 0 and below 1000000, such as 8.0"
        errors.append(OptionProblem(Reason.ALLOCATION_RATIO_INVALID, option, text, why))
        return None
    return Decimal(text)


def count(option: str, value: str | None, errors: list[OptionProblem]) -> int:
    """Read a number of CPUs; 0 if the option is unset."""
    text = text_of(value)
    if text is None:
        return 0
    if not _COUNT.fullmatch(text):
        why = "it is no whole number of CPUs, such as 2"
        errors.append(OptionProblem(Reason.RESERVED_CPUS_INVALID, option, text, why))
        return 0
    return int(text)


def flag(option: str, value: str | None, errors: list[OptionProblem]) -> bool:
    """Read a flag; False if the option is unset."""
    text = (text_of(value) or "false").lower()
    if text not in _TRUE | _FALSE:
        errors.append(OptionProblem(Reason.POWER_MANAGEMENT_INVALID, option, text, "write true or false"))
    return text in _TRUE
