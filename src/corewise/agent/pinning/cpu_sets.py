"""What the cgroups of a node's pods are to have for CPUs.

A pod's own cgroup gets the pod's CPUs, and so does every cgroup directly below it, by whatever name: the
containers, those that the API does not tell of yet, and the sandbox. What lies deeper is within those.

What comes back is what was found. But on v1 a new cgroup begins with the CPUs of its parent: a container that
is made in a pod that is narrowed already gets back what the pod gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from corewise.actions import Setting, SettingOwner, WriteSetting
from corewise.agent.node_cgroups import Found
from corewise.agent.objects import QuotaPod
from corewise.agent.pinning.division import Division
from corewise.kernel.cgroups.pods import QOSClass
from corewise.kernel.errors import KernelError, Missing, UnsafeName
from corewise.kernel.settings.ledger import Place
from corewise.kernel.settings.values import list_of, setting_file
from corewise.vocabulary.reasons import Reason


def cpu_sets(
    division: Division, pods: Iterable[QuotaPod], found: Found, problems: dict[str, str]
) -> Iterator[WriteSetting]:
    """Yield what is to be set, for the cgroups that are there. What goes wrong is added to ``problems``."""
    for pod in pods:
        if pod.has_ended or not pod.status.qos_class or not division.cpus_of(pod.uid):
            continue
        try:
            cgroup = found.names.pod(pod.uid, QOSClass(pod.status.qos_class))
            below = found.files.children(cgroup)
        except Missing:
            continue
        except (UnsafeName, ValueError) as error:
            problems[pod.name] = f"pod {pod.name} is left alone: {error}"
            continue
        except KernelError as error:
            problems[error.path] = str(error)
            continue
        yield from _actions(division, pod, {each: _base(found, each, cgroup) for each in (cgroup, *below)})


def _actions(division: Division, pod: QuotaPod, bases: Mapping[str, str | None]) -> Iterator[WriteSetting]:
    """Yield what is to be set in the cgroups of a pod, by their bases."""
    owner = division.owners.get(pod.uid)
    owns = owner is not None and bool(owner.online)
    value, reason = list_of(division.cpus_of(pod.uid)), Reason.CPUS_OWNED if owns else Reason.CPUS_SHARED
    why = f"pod {pod.name} owns these CPUs" if owns else f"pod {pod.name} shares what no pod owns"
    for cgroup, base in bases.items():
        yield WriteSetting(cgroup, Setting.CPUSET, SettingOwner.PINNING, value, base, reason, why)


def _base(found: Found, cgroup: str, pod_cgroup: str) -> str | None:
    """Return what a cgroup gets back one day; None is what was found there."""
    if not found.is_v1 or cgroup == pod_cgroup:
        return None
    file = setting_file(found.files.version, Setting.CPUSET)
    hold, above = (found.settings.held.get(Place(each, file)) for each in (cgroup, pod_cgroup))
    if hold is not None and hold.owner:
        return hold.base if hold.stated else None
    return above.base if above is not None else None
