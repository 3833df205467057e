"""The cost of the amplification rule for one write of nodes/status: in CEL, and in Python.

The write is the steady state: a kubelet that restates its raw amounts, with fresh heartbeats. In CEL it is
the policy, evaluated by the library that the local API server uses, in C++; kube-apiserver evaluates it in
Go, so this figure is not what a write costs there. In Python it is the webhook's work between the bytes of a
review and its answer; the connection and the API server's part come on top.
"""

from __future__ import annotations

import time

import msgspec

from corewise.amplification.policy import amplification_policy
from corewise.kube.admission import decode_review
from corewise.manager.node_status_webhook import NodeStatusWebhook
from corewise.manager.options import KUBELET_USER, LARGEST_AMPLIFICATION
from corewise.prometheus.exposition import Exposition
from corewise.ratios.cluster import UNKNOWN, ClusterContext
from corewise.vocabulary.metrics import MANAGER, exported_by
from kubedouble.admission_policies import declare_variables
from kubedouble.expressions import PATCHES, Inputs, Scope
from tools.bench import fleet
from tools.bench.table import Row, quantile

_WRITES = 300
_WARM_UP = 10
_NOW = "2026-01-01T00:00:00Z"


async def measure() -> list[Row]:
    """p50 and p99 of the CPU time of one evaluation, each way."""
    reviews = [fleet.kubelet_review(index, _NOW) for index in range(_WARM_UP + _WRITES)]
    at = f"{len(reviews[0]) / 1024:.0f} KB a review"
    return [
        Row("policy in the local API server: CEL of one write, CPU p50, p99", at, _shown(_policy(reviews))),
        Row("webhook: review read, decided, answered, CPU p50, p99", at, _shown(await _webhook(reviews))),
    ]


async def sample() -> dict[str, float]:
    """Return the p50 of the CPU time of one review by the webhook, in microseconds."""
    reviews = [fleet.kubelet_review(index, _NOW) for index in range(_WARM_UP + _WRITES)]
    return {"webhook": quantile(await _webhook(reviews), 0.5) * 1e6}


def _policy(reviews: list[bytes]) -> list[float]:
    spec = amplification_policy(maximum=LARGEST_AMPLIFICATION)[0]["spec"]
    scope = Scope()
    declare_variables(scope, spec)
    mutation = scope.compile(spec["mutations"][0]["jsonPatch"]["expression"], PATCHES)
    times = []
    for review in reviews:
        request = msgspec.json.decode(review)["request"]
        write = {"object": request["object"], "oldObject": request["oldObject"], "namespaceObject": None}
        user = {"userInfo": {"username": request["userInfo"]["username"]}}
        start = time.process_time()
        patch = mutation.evaluate(Inputs({**write, "request": user}, scope.variables))
        times.append(time.process_time() - start)
        if not patch:
            raise SystemExit("the policy leaves a kubelet's raw amounts as they are")
    return times[_WARM_UP:]


async def _webhook(reviews: list[bytes]) -> list[float]:
    webhook = NodeStatusWebhook(
        context=lambda: ClusterContext(UNKNOWN),
        kubelet_users=(KUBELET_USER,),
        quiet_heartbeats=True,
        metrics=Exposition(exported_by(MANAGER)),
    )
    times = []
    for review in reviews:
        start = time.process_time()
        await webhook.review(decode_review(review))
        times.append(time.process_time() - start)
    return times[_WARM_UP:]


def _shown(times: list[float]) -> str:
    return ", ".join(f"{quantile(times, share) * 1000:.2f} ms" for share in (0.5, 0.99))
