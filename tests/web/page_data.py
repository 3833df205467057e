"""What the test's own server of the page has: one of everything, with an attack in texts of users."""

from __future__ import annotations

from typing import Any

from web.page_world import node_row, pod_row

EVIL = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"
PROBLEM = {
    "name": "UnknownCPUModel Node/n2",
    "reason": "UnknownCPUModel",
    "kind": "Node",
    "object": "n2",
    "message": f"no entry for {EVIL}",
    "fix": "add the model",
    "command": "corewise explain node n2",
    "since": "2026-01-01T00:00:00Z",
    "node": "n2",
    "severity": "error",
    "meaning": "ratioModel has no entry for this CPU model.",
    "atLeast": False,
    "lastEvent": None,
    "current": True,
}
ACT = {"reason": "UnknownCPUModel", "severity": "error"}
SUMMARY = {"problems": {"error": 1, "warning": 2, "over": 1, "nodes": 1}, "recommendations": 4}
WORTH = [
    {"kind": EVIL, "shortName": EVIL, "nodes": 1, "off": None, "on": None},
    {
        "kind": "AMD EPYC 9654 96-Core Processor",
        "shortName": "EPYC 9654",
        "nodes": 2,
        "off": {"least": "1.50", "most": "1.50"},
        "on": {"least": "0.91", "most": "1.00"},
    },
]
ADVICE = {
    "name": "UnusedRequest ns/web",
    "advice": "UnusedRequest",
    "kind": "Deployment",
    "object": "ns/web",
    "what": f"Lower the request of {EVIL}.",
    "why": EVIL,
    "amountCPUMilli": 3300,
    "command": f"kubectl -n ns set resources deployment/web --requests=cpu=700m # {EVIL}",
}
NODE_PODS = [
    {
        **pod_row(name, **pod),
        "work": work,
        "limitCPUMilli": 3000,
        "quotaRawCPUMilli": 2000,
        "usedRawCPUMilli": 750,
        "usedCPUMilli": 1125,
        "throttled": 0.4 if work == "online" else None,
        "waited": 0.1 if work == "online" else None,
        "waits": "OwnQuotaThrottles" if work == "online" else None,
    }
    for name, work, pod in (
        ("ns/owner", "CPU owner", {"cpus": "0-1", "ownedCPUs": 2}),
        ("ns/web-10", "online", {}),
        ("ns/web-2", "online", {}),
        (
            "ns/sum",
            "offline",
            {"qosClass": "offline", "requestedCPUMilli": 0, "batchCPUNormalizedMilli": 2250},
        ),
    )
]
EXPLAINED: dict[str, Any] = {"record": {}, "text": f"n1: {EVIL}\n", "missing": []}
EVENT = {"reason": "R", "type": "Warning", "message": EVIL, "count": 2, "last": None, "component": "x"}
TOPOLOGY = {
    "onlineCPUs": "0-3",
    "offlineCPUs": "4",
    "numaNodes": [{"numaNode": 0, "memoryBytes": 2**34}],
    "caches": [{"cache": 0, "level": 3, "sizeBytes": 2**25}],
    "threads": [{"cpu": cpu, "core": cpu // 2, "cache": 0, "numaNode": 0, "socket": 0} for cpu in range(4)],
    "owners": [{"pod": "ns/owner", "cpus": "0-1"}],
    "conflicts": [],
}
OFFLINE = {
    "name": "n1",
    "allocatableCPUMilli": 47_500,
    "onlineCPUMilli": 20_009,
    "offlineCPUMilli": 9_999,
    "idleCPUMilli": 17_492,
    "offeredCPUMilli": 10_000,
    "quotaCPUMilli": None,
    "offlinePods": 2,
    "state": "",
    "limitedBy": "0.60 of idle",
    "ageSeconds": 3,
    "stale": False,
}
HISTORY = {
    "source": "this server",
    "since": None,
    "times": [1_700_000_000, 1_700_000_015],
    "onlineCPUMilli": [1000, 2000],
    "offlineCPUMilli": [1000, 2000],
    "offeredCPUMilli": [1000, None],
    "quotaCPUMilli": [None, None],
    "batchCPUNormalizedMilli": [1000, 2000],
    "nodesSuppressing": [0, 1],
}
BROKEN = {"name": "broken", "reason": "FileUnusable", "problem": EVIL}
HOST = {"name": "h1", "legacy": True, "dedicatedCPUs": "1-4", "sharedCPUs": "5", "freeDedicatedCPUs": "4"}
HOST |= {"guests": 2, "conflicts": 1, "reason": None, "problem": None}
USES = ["host", "pinned", "emulator threads", "kept empty", "dedicated, free", "shared"]
MACHINE = {**TOPOLOGY, "onlineCPUs": "0-5", "offlineCPUs": "", "threads": []}
MACHINE["threads"] = [
    {"cpu": cpu, "core": cpu, "cache": None, "numaNode": cpu // 3, "socket": 0} for cpu in range(6)
]
STATUS = {
    "cpus": [
        {
            "cpu": cpu,
            "numaNode": cpu // 3,
            "use": use,
            "guest": EVIL if 0 < cpu < 4 else None,
            "guestCPU": None,
        }
        for cpu, use in enumerate(USES)
    ],
    "conflicts": [{"guest": "g2", "cpus": "3", "heldBy": EVIL}],
    "guests": [
        {"guest": guest, "flavor": "f", "state": "held", "vcpus": 1, "cpuPolicy": "dedicated"}
        | {"threadPolicy": None, "heldCPUs": cpus, "resources": {"PCPU": 1}}
        for guest, cpus in ((EVIL, "1-3"), ("g2", "3"))
    ],
}
RESHAPE = {
    "before": {"inventories": {"VCPU": {"total": 6, "reserved": 1, "allocation_ratio": 16.0}}},
    "after": {"inventories": {"PCPU": {"total": 4, "reserved": 0, "allocation_ratio": 1.0}}},
    "guests": [{"guest": EVIL, "before": {"VCPU": 1}, "after": {"PCPU": 1}}],
    "warnings": [{"reason": "R", "message": EVIL}],
}
AS_IT_IS = '{\n  "enable": true\n}'


def quantiles(*amounts: float) -> list[dict[str, Any]]:
    return [
        {"share": share, "value": each, "text": f"{each} GB/s"}
        for share, each in zip((0, 0.5, 1), amounts, strict=True)
    ]


MEASURES = [
    {"name": "Bandwidth", "value": 45.6, "text": "45.6 GB/s", "nodes": 2, "quantiles": quantiles(0, 1.5, 10)},
    {"name": "Latency", "value": None, "text": "-", "nodes": 1, "quantiles": quantiles(7, 7, 7)},
]


def table(*rows: dict[str, Any], remarks: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """Return a table of the API."""
    return {"rows": list(rows), "total": None, "remarks": list(remarks), **more}


def page_data() -> dict[str, Any]:
    """Return the data of every path below /api."""
    return {
        "session": {"version": "1", "cluster": EVIL, "server": EVIL, "user": "", "placement": True},
        "summary": SUMMARY,
        "tables/nodes": table(
            node_row("n1"),
            node_row("n2", cpuModel=EVIL, state="problem", problem="Bad", problems=[ACT]),
            remarks=(EVIL,),
            worth=WORTH,
        ),
        "tables/pods": table(pod_row("ns/p1"), pod_row(f"ns/{EVIL}", node=None, phase="Pending")),
        "tables/offline": table(OFFLINE),
        "tables/problems": table(PROBLEM),
        "tables/recommendations": table(ADVICE, remarks=(EVIL,)),
        "tables/hosts": table(BROKEN, HOST),
        "hosts/broken": {"host": BROKEN, "status": None, "reshape": None},
        "hosts/h1": {"host": HOST, "topology": MACHINE, "status": STATUS, "reshape": RESHAPE},
        "what-if": {"config": {"amplification": AS_IT_IS, "other": "{}"}},
        "offline/*": {"history": HISTORY},
        "nodes/n1": {
            "node": node_row("n1"),
            "topology": TOPOLOGY,
            "explanation": EXPLAINED,
            "suppression": EXPLAINED,
            "pods": NODE_PODS,
            "podsRemark": EVIL,
            "offline": OFFLINE,
            "interference": {"source": EVIL, "remarks": [EVIL], "measures": MEASURES},
            "history": HISTORY,
            "events": [EVENT],
        },
        "pods/ns/p1": {
            "pod": pod_row("ns/p1"),
            "explanation": EXPLAINED,
            "waiting": {**EXPLAINED, "text": f"ns/p1: waits {EVIL}\n"},
            "usedRawCPUMilli": 750,
            "events": [EVENT],
        },
    }
