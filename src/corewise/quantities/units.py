"""Units as types. They cost nothing at run time; the type checker keeps them apart."""

from typing import NewType

RawMilli = NewType("RawMilli", int)
"""Thousandths of a physical CPU, as the kernel counts CPUs."""

AmplifiedMilli = NewType("AmplifiedMilli", int)
"""Thousandths of a schedulable CPU: raw x amplification ratio, what the scheduler sees and pods request."""

Bytes = NewType("Bytes", int)
Microseconds = NewType("Microseconds", int)
Seconds = NewType("Seconds", float)
