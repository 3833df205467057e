"""The manifests under deploy/scheduler: they load, and grant what the scheduler needs and no more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from corewise.cli.scheduler import command
from corewise.kube.resources import MUTATING_WEBHOOKS
from corewise.scheduler.configuration import DEFAULTS, parse_configuration
from corewise.scheduler.installation import CLIENT_SECRET_NAME, FORMER_GATE, SECRET_NAME, SERVICE_URL
from corewise.scheduler.marking import NAME as MARKS
from corewise.scheduler.policy import NAME as POLICY
from corewise.scheduler.policy import webhook_configuration
from corewise.scheduler.program import COMPONENT
from corewise.service.certificates import Lifetimes
from corewise.vocabulary.metrics import INTERFERENCE_PATH, LEDGER_LATE, OWNED_CPUS_PATH
from corewise.vocabulary.qos import DEFAULT_RULES
from corewise.vocabulary.reasons import Reason
from deploy.test_deploy import Recorder, apply
from identities import account
from kubedouble.rbac import Access, Rule
from kubedouble.server import NEW_IN_1_36, serve
from manager.world import eventually, small_cluster, until
from scheduler.program_world import NotBoundError, SchedulerWorld, caller, scheduler_world

DEPLOY = Path(__file__).parents[2] / "deploy" / "scheduler"
world = pytest.fixture(scheduler_world, name="world")
AT_STAKE = parse_configuration("interference: {profiles: {a: {profile: {memoryBandwidth: 5GB/s}}}}")


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


(DEPLOYMENT,) = documents("deployment.yaml")
(SERVICE,) = documents("service.yaml")
POD = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def test_the_kustomization_names_every_manifest() -> None:
    (kustomization,) = documents("kustomization.yaml")
    assert set(kustomization["resources"]) == {path.name for path in DEPLOY.glob("*.yaml")} - {
        "kustomization.yaml"
    }


def test_scheduler_accepts_the_arguments_the_manifest_gives() -> None:
    known = {option for parameter in command.params for option in parameter.opts}
    assert CONTAINER["args"][0] == "scheduler"
    assert {argument.partition("=")[0] for argument in CONTAINER["args"][1:]} <= known


def test_deployment_meets_the_restricted_pod_security_standard() -> None:
    assert POD["securityContext"]["runAsNonRoot"]
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_rollout_removes_no_replica_before_another_answers() -> None:
    assert DEPLOYMENT["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }
    (budget,) = documents("disruption-budget.yaml")
    assert budget["spec"]["selector"] == DEPLOYMENT["spec"]["selector"]
    assert budget["spec"]["minAvailable"] < DEPLOYMENT["spec"]["replicas"]


def test_service_reaches_deployment_pods_at_the_stanzas_address() -> None:
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == labels == SERVICE["spec"]["selector"]
    ports = {port["name"] for port in CONTAINER["ports"]}
    assert {port["targetPort"] for port in SERVICE["spec"]["ports"]} == ports
    meta = SERVICE["metadata"]
    assert f"https://{meta['name']}.{meta['namespace']}.svc:443" == SERVICE_URL
    assert f"--webhook-service={meta['namespace']}/{meta['name']}" in CONTAINER["args"]


def test_roles_name_objects_and_bind_only_schedulers_account() -> None:
    named = {
        name
        for document in documents("rbac.yaml")
        for rule in document.get("rules", ())
        for name in rule.get("resourceNames", ())
    }
    assert named == {COMPONENT, SECRET_NAME, CLIENT_SECRET_NAME, FORMER_GATE, POLICY, MARKS}
    account = {"kind": "ServiceAccount", "name": COMPONENT, "namespace": "corewise-system"}
    bindings = [each for each in documents("rbac.yaml") if each["kind"].endswith("Binding")]
    assert [each["subjects"] for each in bindings] == [[account], [account]]
    assert {each["metadata"]["name"] for each in documents("rbac.yaml")} == {COMPONENT}


def grants() -> Iterator[tuple[str, str, Rule]]:
    """Yield each verb on each resource: what it is, in which namespace ("" for all), and its rule."""
    for role in documents("rbac.yaml"):
        namespace = role["metadata"].get("namespace", "") if role["kind"] == "Role" else ""
        for rule in role.get("rules", ()):
            for verb in rule["verbs"]:
                text = f"{verb} {rule['resources'][0]} {rule.get('resourceNames', '')}"
                yield text, namespace, Rule.of({**rule, "verbs": [verb]})


GRANTS = tuple(grants())


def covers(namespace: str, rule: Rule, access: Access) -> bool:
    return namespace in {"", access.namespace} and rule.allows(access)


def unused(*recorders: Recorder) -> list[str]:
    """Return the grants that no request needed."""
    wanted = [each for recorder in recorders for each in recorder.wanted]
    return [
        text for text, namespace, rule in GRANTS if not any(covers(namespace, rule, each) for each in wanted)
    ]


async def recorded(world: SchedulerWorld, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Install the manifests, and record from now on what schedulers want."""
    for manifest in [*documents("rbac.yaml"), *documents("service.yaml"), *documents("deployment.yaml")]:
        await apply(world.client, manifest)
    recorder = Recorder(world.server, user=account("scheduler").name)
    monkeypatch.setattr(world.server.cluster.authorizer, "require", recorder.require)
    return recorder


async def before_1_36(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Run against an API server without policies until the webhook is installed."""
    async with serve(without=NEW_IN_1_36) as server, small_cluster(server, directory) as cluster:
        world = SchedulerWorld(cluster.server, cluster.client, cluster.administrator)
        recorder = await recorded(world, monkeypatch)
        async with world.scheduler() as scheduler:
            await until(lambda: scheduler.metrics.value(OWNED_CPUS_PATH, "webhook") == 1)
    return recorder


async def live(world: SchedulerWorld, *recorders: Recorder) -> None:
    """A short life of a cluster in which the scheduler has to do all it can do.

    Time that is skipped may cost it the lease, which it then takes again. It makes the views of the cluster
    old, too, up to the next bookmark; so these come often.
    """
    world.server.cluster.bookmark_seconds = 0.2
    left = webhook_configuration(lambda path: {"url": f"https://127.0.0.1:1{path}"}, DEFAULT_RULES)
    for hook in left["webhooks"]:
        hook["objectSelector"] = {"matchLabels": {"no": "pod"}}
    await world.client.create(MUTATING_WEBHOOKS.typed(dict), left)
    await world.add_pod("late", cpu="2", qos="LSR")
    big = await world.add_pod("big", cpu="64")
    short = Lifetimes(serving=timedelta(days=1))
    async with (
        world.scheduler(leader_elect=True, lifetimes=short, configuration=AT_STAKE) as scheduler,
        caller(scheduler) as call,
    ):
        await world.add_pod("p", cpu="2", qos="LSR")
        await world.bind("p", "n1")
        with pytest.raises(NotBoundError):
            await world.bind("big", "n1")
        await world.bind_past("late", "n1")
        question = {"Pod": big, "NodeNames": ["n1"]}
        await call("filter", question)
        await call("preempt", {"Pod": big, "NodeNameToMetaVictims": {"n1": {"Pods": []}}})
        assert (await call("explain"))[0] == 200
        await world.told("NoNodeSuits")
        world.clock.skip(timedelta(hours=20).total_seconds())
        await until(lambda: scheduler.metrics.value(LEDGER_LATE, Reason.OWNED_LATE) == 1)

        async def told_again() -> bool:
            await call("filter", question)
            return scheduler.events.written == 3

        await eventually(told_again)
        await until(lambda: scheduler.metrics.value(INTERFERENCE_PATH, "policy") == 1)
        scheduler.reloader.active.apply(DEFAULTS)
        world.clock.skip(20)
        with suppress(AssertionError):
            await until(lambda: not unused(*recorders))


async def test_the_scheduler_uses_exactly_what_its_roles_grant(
    world: SchedulerWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "older").mkdir()
    older = await before_1_36(tmp_path / "older", monkeypatch)
    recorder = await recorded(world, monkeypatch)
    await world.add_node("n1", 8)
    await live(world, older, recorder)
    assert older.refused == recorder.refused == []
    assert unused(older, recorder) == []
