"""When a request is sent again, and after how long.

| what happened | sent again |
|---|---|
| the connection was refused: the request never left | always |
| the connection broke, or timed out, after sending | if sending twice does no harm |
| 429: refused before anything was done | always |
| 503 with Retry-After | always |
| 502, 503, 504, or any 5xx with Retry-After | if sending twice does no harm |
| any other answer | never |

Waits grow from 0.2 s by doubling to 10 s, each halved at most by chance, so that many clients do not come
back together. A longer Retry-After is obeyed; beyond 30 s the caller gets the error and decides.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from corewise.kube.errors import APIError, KubeError, ServerError, TooManyRequests, TransportError

LONGEST_WAIT = 30.0
_UNAVAILABLE = 503
_GATEWAY = frozenset({502, _UNAVAILABLE, 504})


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double from ``first`` to ``longest``, each between a half and the whole of that."""

    first: float
    longest: float

    def delay(self, failures: int, rng: random.Random) -> float:
        """Seconds to wait after so many failures in a row (1 and up)."""
        doublings = min(failures - 1, 32)
        return float(min(self.longest, self.first * 2**doublings) * rng.uniform(0.5, 1.0))


REQUEST_BACKOFF = Backoff(first=0.2, longest=10.0)


def retry_delay(error: KubeError, *, repeatable: bool, failures: int, rng: random.Random) -> float | None:
    """Seconds after which to send again, or None for never."""
    if not _may_repeat(error, repeatable=repeatable):
        return None
    wanted = error.retry_after or 0.0
    if wanted > LONGEST_WAIT:
        return None
    return max(wanted, REQUEST_BACKOFF.delay(failures, rng))


def _may_repeat(error: KubeError, *, repeatable: bool) -> bool:
    match error:
        case TransportError():
            return repeatable or not error.sent
        case TooManyRequests():
            return True
        case ServerError():
            asked = error.retry_after is not None
            return (asked and error.code == _UNAVAILABLE) or (repeatable and (asked or _in_gateway(error)))
        case _:
            return False


def _in_gateway(error: APIError) -> bool:
    return error.code in _GATEWAY
