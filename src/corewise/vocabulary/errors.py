"""Errors that more than one package knows."""

from __future__ import annotations

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a text that is not the wanted JSON: wrong, not UTF-8, or nested too deep."""
