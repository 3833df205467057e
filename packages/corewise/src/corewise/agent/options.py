"""The options of the agent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from corewise.service.options import Address
from corewise.vocabulary.names import CONFIG_NAMESPACE
from corewise.vocabulary.qos import DEFAULT_RULES, QoSRules

NRI_SOCKET = "var/run/nri/nri.sock"
STATE_DIR = "var/lib/corewise"
INTERVAL = 10.0
LATENCY_INTERVAL = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """All options of the agent. Paths that are not given lie below ``root``.

    ``nri_socket`` is None where no container runtime is to be asked. ``once``: one cycle and one report, and
    that is all. ``dry_run`` writes nothing, neither to cgroups nor to the API. ``latency_interval`` is None
    if memory is not to be probed. ``metrics_auth``: /metrics takes a token, which the API server reviews.
    ``rules``: which pods may be LSE or SYSTEM. ``evaluate_minutes``: how long this node may measure its own
    CPUs in a day; None if it does not.
    """

    node: str
    root: Path = Path("/")
    cgroup_root: str = "/"
    state_dir: Path | None = None
    nri_socket: Path | None = None
    interval: float = INTERVAL
    latency_interval: float | None = LATENCY_INTERVAL
    evaluate_minutes: float | None = None
    metrics_listen: Address | None = None
    metrics_auth: bool = False
    once: bool = False
    dry_run: bool = False
    rules: QoSRules = DEFAULT_RULES
    config_namespace: str = CONFIG_NAMESPACE

    @property
    def journal(self) -> Path:
        """The directory of the journal of writes."""
        return self.state_dir or self.root / STATE_DIR
