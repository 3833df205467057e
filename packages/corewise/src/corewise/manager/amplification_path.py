"""The amplifier of a cluster's nodes: the policy in the API server, or the webhook.

:mod:`corewise.service.installation` installs them, and switches over from one to the other. Whether the
policy works shows in a dry run: on a node whose allocatable amount is amplified, the manager states the
recorded raw amount. The rule undoes that, since the manager is not a kubelet; without the rule the raw amount
would be stored. The webhook leaves this dry run alone, by its matchConditions.

A policy in a file of the API server shows in another dry run, on any node: a second policy in that file
answers with the fingerprint of the first. A file of another version or of other options counts as absent, so
the manager's own policy stays beside it; both together amplify once.

Where Koordinator's own webhook amplifies, nothing of ours may: our webhook then allows every write as it is,
and the policy is removed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from corewise.amplification.amounts import AMPLIFIABLE
from corewise.amplification.policy import ASKED, amplification_policy, fingerprint
from corewise.kube.client import Client
from corewise.kube.errors import APIError, NotFound
from corewise.kube.resources import MUTATING_POLICIES, MUTATING_POLICY_BINDINGS, MUTATING_WEBHOOKS
from corewise.manager.options import AmplifyBy, ManagerOptions
from corewise.manager.snapshot import Snapshot
from corewise.manager.webhooks import mutating_configuration
from corewise.prometheus.exposition import Exposition
from corewise.ratios.nodes import quantities
from corewise.service.installation import Alternative, Objects, Path
from corewise.service.logs import fields
from corewise.vocabulary.metrics import AMPLIFICATION_PATH
from corewise.vocabulary.names import AMPLIFICATION_PROBE, recorded_applied, recorded_raw
from corewise.workload.nodes import WORKLOAD_NODES, Node

log = logging.getLogger(__name__)

_PROBED = 3
_FORCED = {AmplifyBy.AUTO: None, AmplifyBy.POLICY: Path.POLICY, AmplifyBy.WEBHOOK: Path.WEBHOOK}


def alternative(
    client: Client, options: ManagerOptions, snapshot: Snapshot, metrics: Exposition
) -> Alternative:
    """Return the policy and the webhook, and how to choose between them."""
    return Alternative(
        policies=partial(policies, options),
        webhooks=lambda config: [
            (
                MUTATING_WEBHOOKS,
                options.stated_on(
                    mutating_configuration(
                        config,
                        kubelet_users=options.kubelet_users,
                        failure_policy=options.node_status_failure_policy,
                    )
                ),
            )
        ],
        forced=_FORCED[options.amplify_by],
        works=partial(policy_works, client, snapshot),
        stopped=lambda: bool(snapshot.koordinator),
        in_file=partial(policy_in_file, client, options, snapshot),
        report=lambda paths: metrics.replace(AMPLIFICATION_PATH, {(path.value,): 1.0 for path in paths}),
    )


def policies(options: ManagerOptions) -> Objects:
    """Return the policy and its binding, as the manager installs them."""
    resources = {each.kind: each for each in (MUTATING_POLICIES, MUTATING_POLICY_BINDINGS)}
    return [(resources[each["kind"]], each) for each in _documents(options)]


def _documents(options: ManagerOptions) -> list[dict[str, Any]]:
    return amplification_policy(
        maximum=options.largest_amplification,
        kubelet_users=options.kubelet_users,
        quiet_heartbeats=options.quiet_heartbeats,
    )


async def policy_in_file(client: Client, options: ManagerOptions, snapshot: Snapshot) -> bool:
    """Say whether the API server that answers has this manager's policy in a file.

    False without a node, and if nodes refuse the probe: the manager's own policy beside it does no harm.

    Raises:
        KubeError: if the API server cannot be asked.
    """
    body = {"metadata": {"annotations": {AMPLIFICATION_PROBE: ASKED}}}
    refusals = 0
    for node in [*snapshot.nodes.items.values()]:
        found = await _try(client, node.metadata.name, body)
        if isinstance(found, Node):
            break
        refusals += found is not None
        if refusals == _PROBED:
            return False
    else:
        return False
    answer, own = found.metadata.annotations.get(AMPLIFICATION_PROBE, ASKED), fingerprint(_documents(options))
    if answer not in {ASKED, own}:
        log.warning(
            "the policy in the API server's file is another one, so the manager installs its own too; "
            "print the file again with the manager's options: corewise manager policy --static",
            extra=fields(found=answer, own=own),
        )
    if answer == own and snapshot.koordinator:
        log.error(
            "Koordinator's webhook amplifies nodes, and so does the policy in the API server's file: "
            "remove one of them"
        )
    return answer == own


async def policy_works(client: Client, snapshot: Snapshot) -> bool:
    """Say whether the policy amplifies, as a few amplified nodes show; True if there is none to show it.

    Raises:
        KubeError: if the API server cannot be asked.
    """
    answers: list[bool] = []
    for probe in _probes([*snapshot.nodes.items.values()]):
        undone = await _undoes(client, *probe)
        if undone is not None:
            answers.append(undone)
        if len(answers) == _PROBED:
            break
    if answers and not any(answers):
        log.warning("the policy is installed, and does not amplify: the webhook stays")
    return any(answers) or not answers


def _probes(nodes: Iterable[Node]) -> Iterator[tuple[str, str, str]]:
    """Yield name, resource and recorded raw amount of nodes whose allocatable is amplified."""
    for node in nodes:
        shown, annotations = quantities(node.status.allocatable), node.metadata.annotations
        raw, applied = (
            quantities({each: annotations.get(recorded("allocatable", each), "") for each in AMPLIFIABLE})
            for recorded in (recorded_raw, recorded_applied)
        )
        for resource, amount in raw.items():
            if amount != applied.get(resource) == shown.get(resource):
                yield node.metadata.name, resource, str(amount)
                break


async def _undoes(client: Client, node: str, resource: str, raw: str) -> bool | None:
    """Say whether the raw amount of a node is not stored; None if the node is gone, False if it refuses."""
    body = {
        "metadata": {"annotations": {AMPLIFICATION_PROBE: "raw"}},
        "status": {"allocatable": {resource: raw}},
    }
    found = await _try(client, node, body)
    if not isinstance(found, Node):
        return None if found is None else False
    return quantities(found.status.allocatable) != quantities({**found.status.allocatable, resource: raw})


async def _try(client: Client, node: str, body: Mapping[str, Any]) -> Node | APIError | None:
    """Return a Node as a patch of its status would leave it.

    None if it was deleted meanwhile, and the error if it cannot be patched, which others may be.
    """
    try:
        return await client.patch(WORKLOAD_NODES, node, body, subresource="status", dry_run=True)
    except NotFound:
        return None
    except APIError as error:
        log.warning("a node cannot be probed", extra=fields(node=node, error=error, hint=error.hint))
        return error
