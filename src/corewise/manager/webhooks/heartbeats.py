"""Is a kubelet's write a mere heartbeat, whose times need not be stored?

On an amplified node kubelet writes its status every 10 seconds, since its raw amounts differ from what it
reads. When the amounts have been put back, what is left of most of these writes is fresh
``lastHeartbeatTime``s. If the stored times are put back too, the API server finds nothing changed, stores
nothing and tells no watcher.

Only called for such writes. Compares JSON texts piece by piece, as both objects come from the same
encoder, and values only where texts differ. managedFields are left aside, as the API server leaves them
when it decides whether anything has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from corewise.amplification import keeps_stored_times
from corewise.kube.errors import DecodeError
from corewise.kube.json_patch import Operation, pointer, replace
from corewise.vocabulary.errors import UNREADABLE

_TIME = "lastHeartbeatTime"
_OWN = ("conditions", "capacity", "allocatable")


class _Pieces(msgspec.Struct):
    metadata: dict[str, msgspec.Raw]
    status: dict[str, msgspec.Raw]
    spec: msgspec.Raw = msgspec.Raw(b"null")


_PIECES = msgspec.json.Decoder(_Pieces)
_CONDITIONS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_NO_CONDITIONS = msgspec.Raw(b"[]")


def stored_times(new: msgspec.Raw, old: msgspec.Raw, *, now: int) -> list[Operation]:
    """Return what puts the stored times back, so that ``new`` is ``old``; nothing if it must be stored.

    ``new`` and ``old`` are nodes. Their amounts of capacity and allocatable are the caller's business.

    Raises:
        DecodeError: if one of them is not a node.
    """
    try:
        return _put_back(_PIECES.decode(new), _PIECES.decode(old), now)
    except UNREADABLE as error:
        raise DecodeError(f"the object is not a Node: {error}") from error


def _put_back(written: _Pieces, stored: _Pieces, now: int) -> list[Operation]:
    written.metadata.pop("managedFields", None)
    stored.metadata.pop("managedFields", None)
    if not (_same_members(written.metadata, stored.metadata) and _same(written.spec, stored.spec)):
        return []
    if not _same_members(_without(written.status, _OWN), _without(stored.status, _OWN)):
        return []
    return _restored(_conditions(written), _conditions(stored), now)


def _restored(
    written: Sequence[Mapping[str, msgspec.Raw]], stored: Sequence[Mapping[str, msgspec.Raw]], now: int
) -> list[Operation]:
    if len(written) != len(stored) or any(_TIME not in each for each in (*written, *stored)):
        return []
    for new, old in zip(written, stored, strict=True):
        if not _same_members(_without(new, (_TIME,)), _without(old, (_TIME,))):
            return []
    new_times, old_times = _times(written), _times(stored)
    if not keeps_stored_times(old_times, new_times, now=now):
        return []
    return [
        replace(pointer("status", "conditions", index, _TIME), old_times[name])
        for index, name in enumerate(new_times)
        if new_times[name] != old_times[name]
    ]


def _conditions(node: _Pieces) -> list[dict[str, msgspec.Raw]]:
    return _CONDITIONS.decode(node.status.get("conditions", _NO_CONDITIONS))


def _times(conditions: Sequence[Mapping[str, msgspec.Raw]]) -> dict[str, str]:
    """Return type -> time, in the order of the conditions; a type appears once, as the API demands."""
    times = {_text(condition, "type"): _text(condition, _TIME) for condition in conditions}
    return times if len(times) == len(conditions) else {}


def _text(condition: Mapping[str, msgspec.Raw], key: str) -> str:
    value = msgspec.json.decode(condition[key]) if key in condition else ""
    return value if isinstance(value, str) else ""


def _without(members: Mapping[str, msgspec.Raw], keys: Sequence[str]) -> dict[str, msgspec.Raw]:
    return {key: value for key, value in members.items() if key not in keys}


def _same_members(a: Mapping[str, msgspec.Raw], b: Mapping[str, msgspec.Raw]) -> bool:
    return a.keys() == b.keys() and all(_same(value, b[key]) for key, value in a.items())


def _same(a: msgspec.Raw, b: msgspec.Raw) -> bool:
    if bytes(a) == bytes(b):
        return True
    return bool(_value(a) == _value(b))


def _value(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw)
