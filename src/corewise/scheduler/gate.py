"""The binding gate: a mutating webhook on pods/binding, where a placement becomes final or is refused.

kube-scheduler decides from what it has assumed; other schedulers know nothing of amplified CPUs. The gate
checks the one node again, against everything that is bound and everything it has admitted, chooses the CPUs
and reserves them, in one go without waiting for anything in between: two bindings can never be given the
same. What it chose is added to the Binding as the annotation resource-status, which the API server copies to
the pod as it binds it.

- The same pod on the same node again gets what it was given before, as long as it still fits.
- A pod that states a resource-status of its own does not get those CPUs: the annotation is set to ``{}``.
- With interference configured, memory bandwidth is checked again too, and what is admitted counts on its
  node from now on by its profile, though no measurement shows it yet.
- A dry run reserves nothing.
- While the scheduler does not know the cluster, or does not lead, it gives no answer: with failurePolicy
  Ignore the pod is bound as it would be without corewise, and counts by its request.
- A pod that is unknown to the API server, or bound already, is admitted: the API server refuses it itself.

Refusals are written for the pod's owner: kube-scheduler shows them in the pod's condition and Event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from corewise.engine import ChosenNode, Engine, Placement, PodFacts, Refused
from corewise.engine.facts import CPU
from corewise.engine.objects import PlacedPod
from corewise.engine.reading import pod_facts
from corewise.kube.admission import AdmissionRequest, Operation, OperationType, merge_operations
from corewise.kube.clock import Clock
from corewise.kube.decoding import decode_object
from corewise.kube.errors import KubeError, NotFound
from corewise.kube.objects import NO_META, ObjectMeta, Struct
from corewise.kube.resources import Resource
from corewise.prometheus.exposition import Exposition
from corewise.quantities import Quantity
from corewise.scheduler.decisions import Asked, Decisions
from corewise.scheduler.state import ClusterState, Reservation
from corewise.service.webhooks import Answer, UnavailableError, allowed, refused
from corewise.vocabulary.cpu_annotations import LONGEST_STATUS, ResourceStatus, print_resource_status
from corewise.vocabulary.metrics import GATE_REFUSALS
from corewise.vocabulary.names import RESOURCE_STATUS
from corewise.vocabulary.reasons import Reason

_CONFLICT = 409
_AGAIN = "; the pod will be tried again"


class BindingTarget(Struct, frozen=True):
    """core/v1 ObjectReference to the node."""

    kind: str = ""
    name: str = ""


class Binding(Struct, frozen=True):
    """core/v1 Binding."""

    metadata: ObjectMeta = NO_META
    target: BindingTarget = BindingTarget()


BINDINGS = Resource("", "v1", "bindings", "Binding", namespaced=True, type=Binding)


@dataclass(frozen=True, slots=True)
class Gate:
    """Answers reviews of bindings. ``problems`` says why it cannot, if it cannot."""

    state: ClusterState
    engine: Callable[[], Engine]
    decisions: Decisions
    problems: Callable[[], Iterable[str]]
    metrics: Exposition
    clock: Clock

    async def review(self, request: AdmissionRequest) -> Answer:
        """Answer one review.

        Raises:
            DecodeError: if the object is no Binding.
            UnavailableError: if nothing can be said now.
        """
        binding = decode_object(BINDINGS, request.object, "object")
        if request.operation is not OperationType.CREATE or binding.target.kind not in {"", "Node"}:
            return allowed(request)
        pod = await self._pod(request, binding)
        problem = next(iter(self.problems()), "")
        if problem:
            raise UnavailableError(problem)
        if pod is None or pod.spec.node_name or not binding.target.name:
            return allowed(request)
        answer = self._placed(pod, binding.target.name, dry_run=request.dry_run)
        if isinstance(answer, Refused):
            self.metrics.count(GATE_REFUSALS, answer.reason)
            return refused(request, answer.message, code=_CONFLICT, reason=answer.reason)
        return allowed(request, patch=_patch(binding, pod, answer))

    async def _pod(self, request: AdmissionRequest, binding: Binding) -> PlacedPod | None:
        """Return the pod that is to be bound; None if there is none of that name and uid."""
        meta = binding.metadata
        name, namespace = request.name or meta.name, request.namespace or meta.namespace
        if not name or not namespace:
            return None
        try:
            pod = await self.state.pod(namespace, name, meta.uid)
        except NotFound:
            return None
        except KubeError as error:
            raise UnavailableError(f"the pod cannot be read: {error}") from error
        return pod if meta.uid in {"", pod.metadata.uid} else None

    def _placed(self, pod: PlacedPod, node: str, *, dry_run: bool) -> Placement | Refused:
        """Choose what the pod gets on the node, and reserve it. Nothing is awaited here."""
        facts, uid = pod_facts(pod, self.state.rules), pod.metadata.uid
        with self.state.reservations.without(uid):
            answer = self._decided(facts, node, self.state.reservations.of(uid, node))
        if isinstance(answer, Placement) and not dry_run:
            self.state.reserve(pod, facts, answer)
        return answer

    def _decided(self, pod: PodFacts, name: str, before: Reservation | None) -> Placement | Refused:
        cluster = self.state.cluster
        facts = cluster.nodes.get(name)
        if facts is None:
            return Refused("", Reason.NODE_UNKNOWN, f"corewise does not know node {name} yet{_AGAIN}")
        every = cluster.snapshot()
        snapshot = every.only(every.index[name])
        engine = self.engine()
        decision = engine.decide(pod, snapshot)
        node = ChosenNode(facts, snapshot.index[name], cluster.ledger(name), snapshot)
        answer = (
            next(decision.refusals(node.row), None) or _again(before, pod, node) or engine.reserve(pod, node)
        )
        if isinstance(answer, Placement):
            answer = _too_long(answer) or answer
        if isinstance(answer, Refused):
            answer = replace(answer, message=f"node {name} does not suit the pod: {answer.message}{_AGAIN}")
        self.decisions.remember(Asked.GATE, decision, self.state.ages, _outcome(answer))
        return answer


def _again(before: Reservation | None, pod: PodFacts, node: ChosenNode) -> Placement | None:
    """Return what the same pod was given on the node before, if it can still have it."""
    if before is None or replace(before.facts, key=pod.key) != pod:
        return None
    cpus = before.placement.cpus
    if cpus and not (node.ledger and cpus <= node.ledger.free):
        return None
    return before.placement


def _too_long(placement: Placement) -> Refused | None:
    """Refuse a placement whose annotation would be too long to be read."""
    length = len(print_resource_status(stated_status(placement)))
    if length <= LONGEST_STATUS:
        return None
    message = (
        f"the pod would own {len(placement.cpus)} CPUs so scattered that {RESOURCE_STATUS} would have "
        f"{length} characters, more than {LONGEST_STATUS}"
    )
    return Refused("", Reason.CPUS_TOO_SCATTERED, message)


def _outcome(answer: Placement | Refused) -> str:
    if isinstance(answer, Refused):
        return f"refused, {answer.reason}: {answer.message}"
    cpus = f" with CPUs {answer.cpus}" if answer.cpus else ""
    return f"admitted to node {answer.node}{cpus}"


def _patch(binding: Binding, pod: PlacedPod, placement: Placement) -> list[Operation]:
    """Return what the annotation needs; nothing where there is nothing to say, nor to unsay."""
    status = stated_status(placement)
    stated = RESOURCE_STATUS in pod.metadata.annotations or RESOURCE_STATUS in binding.metadata.annotations
    if not (status.cpus or status.zones or stated):
        return []
    document = {"metadata": {"annotations": dict(binding.metadata.annotations)}}
    if not binding.metadata.annotations:
        document = {"metadata": {}}
    text = print_resource_status(status)
    return merge_operations(document, {"metadata": {"annotations": {RESOURCE_STATUS: text}}})


def stated_status(placement: Placement) -> ResourceStatus:
    """Return what resource-status says of a placement."""
    zones = {zone: _quantities(amounts) for zone, amounts in placement.zones.items()}
    return ResourceStatus(placement.cpus, zones)


def _quantities(amounts: Mapping[str, int]) -> dict[str, Quantity]:
    return {
        name: Quantity.of_milli(amount) if name == CPU else Quantity.parse(str(amount))
        for name, amount in amounts.items()
    }
