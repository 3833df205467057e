"""Everything that can go wrong between a program and a Prometheus server, so that aiohttp never leaks.

::

    PrometheusError          message, hint, retryable
    ├── AddressError         the URL is none that a query can be sent to
    ├── UnreachableError     no answer: refused, cut, timed out                    (retryable)
    ├── QueryError           400, 422: the server says what is wrong with the query
    ├── DeniedError          401, 403
    ├── OverloadedError      429, 5xx: it may answer later                          (retryable)
    └── AnswerError          an answer that is not what the API promises

Source: https://prometheus.io/docs/prometheus/latest/querying/api/#format-overview
"""

from __future__ import annotations


class PrometheusError(Exception):
    """Base of all errors of the client; ``str()`` is the message alone."""

    retryable = False
    default_hint = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint


class AddressError(PrometheusError):
    """The URL cannot be used."""

    default_hint = "write it as http://HOST:9090, with the path that Prometheus is served under, if any"


class UnreachableError(PrometheusError):
    """No answer arrived, or only a part of one."""

    retryable = True
    default_hint = "is Prometheus up, and its address right? try its page /-/ready"


class QueryError(PrometheusError):
    """The server does not take the query, or cannot carry it out."""

    default_hint = "correct the PromQL; promtool and the server's own page /graph say where it is wrong"


class DeniedError(PrometheusError):
    """The server, or a proxy before it, wants credentials."""

    default_hint = "give corewise an address at which queries need no credentials, within the cluster"


class OverloadedError(PrometheusError):
    """The server answers that it cannot now."""

    retryable = True


class AnswerError(PrometheusError):
    """Something answered that is no Prometheus server, or a proxy before one."""

    default_hint = "does the URL lead to Prometheus itself, with the right path?"
