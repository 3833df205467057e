"""Lists and maps as Go marshals them: an empty one may be null, which the struct that has it replaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

T = TypeVar("T")
if TYPE_CHECKING:
    Slice = tuple[T, ...]
    Map = Mapping[str, str]
else:
    Slice = tuple[T, ...] | None
    Map = Mapping[str, str] | None
