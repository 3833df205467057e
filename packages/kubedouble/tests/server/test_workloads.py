"""Deployments, ReplicaSets and Jobs get their pods; a rollout keeps within its bounds at every moment.

HorizontalPodAutoscalers make them as many as their metrics ask for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedouble.authentication import User
from kubedouble.autoscaling import AUTOSCALERS, Autoscaler, Pods, replicas
from kubedouble.bootstrap import bootstrap
from kubedouble.cluster import Cluster
from kubedouble.controllers import Controllers, bounds
from kubedouble.deletion import Options, delete_stored
from kubedouble.disruption import check
from kubedouble.errors import StatusError
from kubedouble.housekeeping import Housekeeper
from kubedouble.requests import Call, RequestInfo
from kubedouble.resources import Registry
from kubedouble.store import Object, Store, Stored
from kubedouble.tables import render_table
from kubedouble.writing import Change, change_object, create_object
from virtual_loop import START, run_virtual

DEPLOYMENTS, REPLICA_SETS, JOBS = "deployments.apps", "replicasets.apps", "jobs.batch"


class World:
    """A cluster with its controllers, and a kubelet that looks at its pods every ``starting`` seconds.

    Pods of the images in ``broken`` never become ready; those of a Job end in the phase that ``ends`` says.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.cluster = Cluster(Store(), Registry(), lambda: START + timedelta(seconds=loop.time()))
        bootstrap(self.cluster)
        self.controllers = Controllers(self.cluster)
        self.housekeeper = Housekeeper(self.cluster)
        self.starting = 1.0
        self.broken: set[str] = set()
        self.ends: Callable[[Stored], str] = lambda _: "Succeeded"

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.controllers.run())
            tasks.create_task(self.housekeeper.run())
            while True:
                await asyncio.sleep(self.starting)
                self._run_pods()

    def _run_pods(self) -> None:
        now = self.cluster.clock().isoformat()
        for pod in self.pods():
            spec, status = pod.object["spec"], pod.object["status"]
            if pod.object["metadata"].get("deletionTimestamp"):
                self.cluster.store.remove("pods", pod.key)
            elif status["phase"] == "Pending":
                ready = str(spec["containers"][0]["image"] not in self.broken)
                condition = {"type": "Ready", "status": ready, "lastTransitionTime": now}
                status = {**status, "phase": "Running", "startTime": now, "conditions": [condition]}
                self.cluster.store.put(
                    "pods", pod.key, {**pod.object, "spec": {**spec, "nodeName": "n"}, "status": status}
                )
            elif status["phase"] == "Running" and spec["restartPolicy"] != "Always":
                status = {**status, "phase": self.ends(pod), "conditions": []}
                self.cluster.store.put("pods", pod.key, {**pod.object, "status": status})

    def pods(self) -> list[Stored]:
        return list(self.cluster.store.table("pods").scan("default"))

    def images(self) -> list[str]:
        """The images of the pods that run and are ready."""
        return sorted(
            pod.object["spec"]["containers"][0]["image"]
            for pod in self.pods()
            if any(each["status"] == "True" for each in pod.object["status"].get("conditions") or ())
        )

    def get(self, storage: str, name: str) -> Object:
        stored = self.cluster.store.get(storage, "default", name)
        assert stored, name
        return stored.object

    def _call(self, verb: str, storage: str, name: str) -> Call:
        resource = self.cluster.registry.of_storage(storage)
        assert resource
        info = RequestInfo(verb, "", resource.group, resource.version, resource.plural, "", "default", name)
        user = User("admin", ("system:masters",))
        return Call(info, resource, user, {}, {"User-Agent": "test"}, self.cluster.clock())

    async def create(self, storage: str, name: str, **spec: Any) -> None:
        call = self._call("create", storage, "")
        typed = {"apiVersion": call.resource.api_version, "kind": call.resource.kind}
        body = {**typed, "metadata": {"name": name}, "spec": spec}
        await create_object(self.cluster, call, Change(lambda _: body))

    async def change(self, storage: str, name: str, **spec: Any) -> None:
        def edit(obj: Object | None) -> Object:
            assert obj
            return {**obj, "spec": {**obj["spec"], **spec}}

        await change_object(self.cluster, self._call("update", storage, name), Change(edit))

    def delete(self, storage: str, name: str, policy: str = "") -> None:
        resource, stored = (
            self.cluster.registry.of_storage(storage),
            self.cluster.store.get(storage, "default", name),
        )
        assert resource
        assert stored
        delete_stored(self.cluster, resource, stored, Options(policy=policy))


def a_template(image: str = "one", **spec: Any) -> Object:
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}], **spec},
    }


SELECTOR = {"matchLabels": {"app": "web"}}


def in_virtual_time(test: Callable[[World], Any]) -> Callable[[], None]:
    """Run a test beside the world's loops."""

    async def main() -> None:
        world = World()
        running = asyncio.create_task(world.run())
        try:
            await test(world)
            assert not running.done()
        finally:
            running.cancel()

    def run() -> None:
        run_virtual(main())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def condition(obj: Object, kind: str) -> Object:
    found: Object = next(each for each in obj["status"]["conditions"] if each["type"] == kind)
    return found


@in_virtual_time
async def test_replica_set_keeps_its_stated_number_of_pods(world: World) -> None:
    await world.create(REPLICA_SETS, "web", replicas=3, selector=SELECTOR, template=a_template())
    await asyncio.sleep(5)
    assert len(world.pods()) == 3
    assert world.get(REPLICA_SETS, "web")["status"]["readyReplicas"] == 3
    world.delete("pods", world.pods()[0].key[1])
    await asyncio.sleep(5)
    assert len(world.pods()) == 3
    await world.change(REPLICA_SETS, "web", replicas=1)
    await asyncio.sleep(5)
    assert len(world.pods()) == 1


@in_virtual_time
async def test_replica_set_adopts_matching_pods_without_a_controller(world: World) -> None:
    await world.create("pods", "lonely", **a_template()["spec"])
    lonely = world.get("pods", "lonely")
    labeled = {**lonely, "metadata": {**lonely["metadata"], "labels": {"app": "web"}}}
    world.cluster.store.put("pods", ("default", "lonely"), labeled)
    await world.create(REPLICA_SETS, "web", replicas=2, selector=SELECTOR, template=a_template())
    await asyncio.sleep(5)
    assert len(world.pods()) == 2
    assert world.get("pods", "lonely")["metadata"]["ownerReferences"][0]["name"] == "web"


@pytest.mark.parametrize(
    ("surge", "missing"), [("25%", "25%"), (1, 0), (0, 1), ("100%", 0), (0, "0%"), (3, "50%")]
)
def test_a_rollout_never_leaves_its_bounds(surge: int | str, missing: int | str) -> None:
    """With surge and unavailable both 0, one pod may be missing, as in a real cluster."""

    @in_virtual_time
    async def rollout(world: World) -> None:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": missing}}
        spec = {"replicas": 4, "selector": SELECTOR, "strategy": strategy}
        await world.create(DEPLOYMENTS, "web", **spec, template=a_template())
        await asyncio.sleep(10)
        assert world.images() == ["one"] * 4
        most, least = [0], [4]

        def look(*_: object) -> None:
            held = [pod for pod in world.pods() if "deletionTimestamp" not in pod.object["metadata"]]
            ready = [pod for pod in held if pod.object["status"].get("conditions")]
            most[0], least[0] = max(most[0], len(held)), min(least[0], len(ready))

        world.cluster.store.listen(look)
        await world.change(DEPLOYMENTS, "web", template=a_template("two"))
        await asyncio.sleep(60)
        assert world.images() == ["two"] * 4
        above = {"25%": 1, "100%": 4}.get(str(surge), surge)
        below = {"25%": 1, "50%": 2, "0%": 1}.get(str(missing), missing)
        assert most[0] <= 4 + int(above)
        assert least[0] >= 4 - int(below)
        status = world.get(DEPLOYMENTS, "web")["status"]
        assert status["updatedReplicas"] == status["availableReplicas"] == status["replicas"] == 4
        assert condition(world.get(DEPLOYMENTS, "web"), "Progressing")["reason"] == "NewReplicaSetAvailable"

    rollout()


AMOUNTS = st.one_of(st.integers(-2, 12), st.integers(0, 300).map("{}%".format), st.text(max_size=4))


@given(surge=AMOUNTS, missing=AMOUNTS, replicas=st.integers(0, 20))
def test_every_accepted_strategy_lets_a_rollout_progress(
    surge: int | str, missing: int | str, replicas: int
) -> None:
    @in_virtual_time
    async def look(world: World) -> None:
        rolling = {"maxSurge": surge, "maxUnavailable": missing}
        strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
        spec = {"replicas": replicas, "selector": SELECTOR, "strategy": strategy}
        try:
            await world.create(DEPLOYMENTS, "web", **spec, template=a_template())
        except StatusError as refusal:
            if refusal.code != 422:
                raise
            return
        above, below = bounds(world.get(DEPLOYMENTS, "web")["spec"])
        assert above >= 0
        assert 0 <= below <= replicas
        assert above or below or not replicas

    look()


@in_virtual_time
async def test_recreate_starts_nothing_before_old_pods_are_gone(world: World) -> None:
    spec = {"replicas": 3, "selector": SELECTOR, "strategy": {"type": "Recreate"}}
    await world.create(DEPLOYMENTS, "web", **spec, template=a_template())
    await asyncio.sleep(10)
    seen: list[set[str]] = []
    world.cluster.store.listen(
        lambda *_: seen.append({pod.object["spec"]["containers"][0]["image"] for pod in world.pods()})
    )
    await world.change(DEPLOYMENTS, "web", template=a_template("two"))
    await asyncio.sleep(30)
    assert world.images() == ["two"] * 3
    assert {"one", "two"} not in seen


@in_virtual_time
async def test_stalled_rollout_is_reported_and_keeps_old_pods(world: World) -> None:
    world.broken.add("two")
    spec = {"replicas": 4, "selector": SELECTOR, "progressDeadlineSeconds": 30}
    await world.create(DEPLOYMENTS, "web", **spec, template=a_template())
    await asyncio.sleep(10)
    await world.change(DEPLOYMENTS, "web", template=a_template("two"))
    await asyncio.sleep(20)
    assert condition(world.get(DEPLOYMENTS, "web"), "Progressing")["reason"] == "ReplicaSetUpdated"
    await asyncio.sleep(60)
    assert condition(world.get(DEPLOYMENTS, "web"), "Progressing")["reason"] == "ProgressDeadlineExceeded"
    assert world.images() == ["one"] * 3
    await world.change(DEPLOYMENTS, "web", template=a_template("one"))
    await asyncio.sleep(20)
    assert world.images() == ["one"] * 4
    assert condition(world.get(DEPLOYMENTS, "web"), "Progressing")["status"] == "True"


@in_virtual_time
async def test_rollout_without_serving_pods_keeps_the_minimum(world: World) -> None:
    world.broken |= {"one", "two"}
    await world.create(DEPLOYMENTS, "web", replicas=4, selector=SELECTOR, template=a_template())
    await asyncio.sleep(10)
    await world.change(DEPLOYMENTS, "web", template=a_template("two"))
    await asyncio.sleep(60)
    images = sorted(pod.object["spec"]["containers"][0]["image"] for pod in world.pods())
    assert images == ["one"] * 3 + ["two"] * 2


@in_virtual_time
async def test_old_revisions_are_kept_up_to_the_limit(world: World) -> None:
    spec = {"replicas": 1, "selector": SELECTOR, "revisionHistoryLimit": 2}
    await world.create(DEPLOYMENTS, "web", **spec, template=a_template("0"))
    for number in range(1, 5):
        await asyncio.sleep(10)
        await world.change(DEPLOYMENTS, "web", template=a_template(str(number)))
    await asyncio.sleep(10)
    sets = [stored.object for stored in world.cluster.store.table(REPLICA_SETS).scan("default")]
    revisions = sorted(each["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for each in sets)
    assert revisions == ["3", "4", "5"]


@in_virtual_time
async def test_deleting_a_deployment_deletes_pods_or_orphans_replicaset(world: World) -> None:
    for policy, left in (("", 0), ("Foreground", 0), ("Orphan", 2)):
        await world.create(DEPLOYMENTS, "web", replicas=2, selector=SELECTOR, template=a_template())
        await asyncio.sleep(10)
        world.delete(DEPLOYMENTS, "web", policy)
        await asyncio.sleep(10)
        assert len(world.pods()) == left
        assert world.cluster.store.get(DEPLOYMENTS, "default", "web") is None


@in_virtual_time
async def test_a_job_completes_with_its_last_pod(world: World) -> None:
    await world.create(JOBS, "pi", completions=5, parallelism=2, template=a_template(restartPolicy="Never"))
    await asyncio.sleep(1.5)
    assert world.get(JOBS, "pi")["status"]["active"] == 2
    await asyncio.sleep(20)
    job = world.get(JOBS, "pi")
    assert job["status"]["succeeded"] == 5
    assert job["status"].get("active", 0) == 0
    assert condition(job, "Complete")["status"] == "True"
    assert job["status"]["completionTime"]
    assert len(world.pods()) == 5


@in_virtual_time
async def test_job_fails_once_its_pods_fail_too_often(world: World) -> None:
    world.ends = lambda _: "Failed"
    await world.create(JOBS, "pi", backoffLimit=2, template=a_template(restartPolicy="Never"))
    await asyncio.sleep(60)
    job = world.get(JOBS, "pi")
    assert condition(job, "Failed")["reason"] == "BackoffLimitExceeded"
    assert job["status"]["failed"] == 3
    assert len(world.pods()) == 3


@in_virtual_time
async def test_finished_job_and_its_pods_expire_together(world: World) -> None:
    await world.create(JOBS, "pi", ttlSecondsAfterFinished=30, template=a_template(restartPolicy="Never"))
    await asyncio.sleep(10)
    assert condition(world.get(JOBS, "pi"), "Complete")
    await asyncio.sleep(60)
    assert world.cluster.store.get(JOBS, "default", "pi") is None
    assert world.pods() == []


@in_virtual_time
async def test_a_suspended_job_has_no_pods(world: World) -> None:
    await world.create(JOBS, "pi", suspend=True, template=a_template(restartPolicy="Never"))
    await asyncio.sleep(10)
    assert world.pods() == []
    assert condition(world.get(JOBS, "pi"), "Suspended")["status"] == "True"
    await world.change(JOBS, "pi", suspend=False)
    await asyncio.sleep(10)
    assert condition(world.get(JOBS, "pi"), "Complete")["status"] == "True"


@in_virtual_time
async def test_controllers_go_on_where_others_stopped(world: World) -> None:
    await world.create(DEPLOYMENTS, "web", replicas=2, selector=SELECTOR, template=a_template())
    await asyncio.sleep(0.1)
    again = Controllers(world.cluster)
    async with asyncio.timeout(30):
        task = asyncio.create_task(again.run())
        await asyncio.sleep(10)
        task.cancel()
    assert len(world.pods()) == 2


# HorizontalPodAutoscalers.

TARGET = Fraction(7, 10)


def pods(values: Mapping[str, float], *, missing: str = "", unready: str = "") -> Pods:
    """Pods named by letters, and their values against a target of 0.7."""
    found = {name: (Fraction(str(value)), TARGET) for name, value in values.items()}
    return Pods(frozenset(values) | frozenset(missing), frozenset(unready), found)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param(pods({"a": 0.7, "b": 0.7}), 2, id="on target"),
        pytest.param(pods({"a": 0.77, "b": 0.77}), 2, id="10 % above is near enough"),
        pytest.param(pods({"a": 0.78, "b": 0.78}), 3, id="above"),
        pytest.param(pods({"a": 0.63, "b": 0.63}), 2, id="10 % below is near enough"),
        pytest.param(pods({"a": 0.3, "b": 0.3}), 1, id="below"),
        pytest.param(pods({"a": 1.0, "b": 0.4}), 2, id="their mean counts"),
        pytest.param(pods({"a": 2.0}, missing="b"), 3, id="a pod without a value counts as 0 on the way up"),
        pytest.param(pods({"a": 1.0}, missing="b"), 2, id="and may turn it round: nothing happens"),
        pytest.param(pods({"a": 0.1}, missing="b"), 2, id="and as on target on the way down"),
        pytest.param(pods({"a": 0.1, "b": 0.1}, missing="cd"), 3, id="which then goes less far"),
        pytest.param(pods({"a": 2.0}, unready="b"), 3, id="one that is not ready counts as 0 on the way up"),
        pytest.param(pods({"a": 0.1}, unready="b"), 1, id="and not at all on the way down"),
    ],
)
def test_replicas_follow_the_documented_algorithm(given: Pods, wanted: int) -> None:
    assert replicas(len(given.running | given.unready), given) == wanted


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (pods({}, missing="a", unready="b"), "no pod that runs has a value"),
        (
            Pods(frozenset("a"), frozenset(), {"a": (TARGET, Fraction(0))}),
            "the target of the pods that run is 0",
        ),
    ],
)
def test_without_values_and_targets_nothing_can_be_said(given: Pods, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        replicas(1, given)


def resource(percent: int) -> dict[str, Any]:
    goal = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": goal}}


PODS = {
    "type": "Pods",
    "pods": {"metric": {"name": "real"}, "target": {"type": "AverageValue", "averageValue": "700m"}},
}
EXTERNAL: dict[str, Any] = {
    "type": "External",
    "external": {
        "metric": {"name": "keda", "selector": {"matchLabels": {"of": "web"}}},
        "target": {"type": "Value", "value": "700m"},
    },
}


class Scene:
    """A Deployment of 2 pods that request 2 CPUs each, its autoscaler, and who writes metrics."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.running = asyncio.create_task(Autoscaler(world.cluster, world.controllers.change).run())

    async def start(self, *metrics: Mapping[str, Any], **spec: Any) -> None:
        amounts = {"requests": {"cpu": "2"}}
        template = a_template(containers=[{"name": "main", "image": "one", "resources": amounts}])
        await self.world.create(DEPLOYMENTS, "web", replicas=2, selector=SELECTOR, template=template)
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        body = {"scaleTargetRef": reference, "maxReplicas": 10, "metrics": list(metrics), **spec}
        await self.world.create(AUTOSCALERS, "web", **body)
        await asyncio.sleep(10)

    def measure(self, cpu: str = "", real: str = "", external: str = "") -> None:
        """Write what all pods use, and a metric of each; what is empty is not known any more."""
        for pod in self.world.pods():
            name = pod.key[1]
            usage = {"containers": [{"name": "main", "usage": {"cpu": cpu}}]}
            described = {"kind": "Pod", "name": name}
            self._write("pods.metrics.k8s.io", name, usage if cpu else None)
            value = {"describedObject": described, "metric": {"name": "real"}, "value": real}
            self._write("metricvalues.custom.metrics.k8s.io", name, value if real else None)
        value = {"metricName": "keda", "metricLabels": {"of": "web"}, "value": external}
        self._write("externalmetricvalues.external.metrics.k8s.io", "web", value if external else None)

    def _write(self, storage: str, name: str, body: Mapping[str, Any] | None) -> None:
        store = self.world.cluster.store
        if body is not None:
            store.put(storage, ("default", name), {"metadata": {"name": name}, **body})
        elif store.get(storage, "default", name):
            store.remove(storage, ("default", name))

    @property
    def size(self) -> int:
        size: int = self.world.get(DEPLOYMENTS, "web")["spec"]["replicas"]
        return size

    @property
    def autoscaler(self) -> dict[str, Any]:
        return dict(self.world.get(AUTOSCALERS, "web"))


@pytest.mark.parametrize(
    ("metric", "idle", "busy", "shown"),
    [
        pytest.param(resource(70), {"cpu": "1400m"}, {"cpu": "1800m"}, "cpu: 90%/70%", id="usage / request"),
        pytest.param(PODS, {"real": "700m"}, {"real": "900m"}, "900m/700m", id="a metric of pods"),
        pytest.param(EXTERNAL, {"external": "0.7"}, {"external": "0.9"}, "900m/700m", id="an external value"),
    ],
)
def test_each_metric_scales_up_only_above_its_target(
    metric: Mapping[str, Any], idle: Mapping[str, str], busy: Mapping[str, str], shown: str
) -> None:
    async def test(world: World) -> None:
        scene, autoscalers = Scene(world), world.cluster.registry.of_storage(AUTOSCALERS)
        assert autoscalers
        await scene.start(metric)
        scene.measure(**idle)
        await asyncio.sleep(30)
        assert scene.size == 2
        scene.measure(**busy)
        await asyncio.sleep(15)
        assert scene.size == 3
        assert condition(scene.autoscaler, "ScalingActive")["status"] == "True"
        _, [row] = render_table(autoscalers, [scene.autoscaler], now=world.cluster.clock())
        assert row[1:-1] == ["Deployment/web", shown, 1, 10, 2]
        scene.running.cancel()

    in_virtual_time(test)()


@pytest.mark.parametrize("ratio", [Fraction(1), Fraction(13, 10), Fraction(3, 2), Fraction(2)])
@pytest.mark.parametrize("metric", [resource(70), PODS], ids=["usage / request", "utilization"])
def test_fractional_cpu_scales_up_only_on_real_utilization(
    metric: Mapping[str, Any], ratio: Fraction
) -> None:
    """With request = limit, a pod gets 1 / ratio of a CPU for each that it requests, whatever it needs."""

    async def test(world: World) -> None:
        scene = Scene(world)
        await scene.start(metric, minReplicas=2)
        sizes = {}
        for percent in (60, 70, 76, 78, 100):
            used = 2 * min(Fraction(percent, 100), Fraction(1)) / ratio
            real = used * ratio / 2
            scene.measure(cpu=f"{used * 1000 // 1}m", real=f"{real * 1000 // 1}m")
            await asyncio.sleep(16)
            sizes[percent] = scene.size
        blind = metric is not PODS and ratio > 1
        assert sizes == {60: 2, 70: 2, 76: 2, 78: 2 if blind else 3, 100: 2 if blind else sizes[78] + 2}
        scene.running.cancel()

    in_virtual_time(test)()


@in_virtual_time
async def test_workload_shrinks_after_five_minutes_but_grows_instantly(
    world: World,
) -> None:
    scene = Scene(world)
    await scene.start(PODS, minReplicas=2)
    scene.measure(real="7")
    await asyncio.sleep(15)
    assert scene.size == 6, "2 + 4, though 20 were wanted"
    scene.measure(real="7")
    await asyncio.sleep(15)
    assert scene.size == 10, "the largest allowed"
    await asyncio.sleep(5)
    scene.measure(real="100m")
    await asyncio.sleep(270)
    assert scene.size == 10
    await asyncio.sleep(60)
    assert scene.size == 2
    scene.running.cancel()


@in_virtual_time
async def test_unknown_metric_changes_nothing_and_is_reported(world: World) -> None:
    scene = Scene(world)
    await scene.start(PODS, resource(70), behavior={"scaleDown": {"stabilizationWindowSeconds": 0}})
    await asyncio.sleep(30)
    assert scene.size == 2
    assert condition(scene.autoscaler, "ScalingActive")["reason"] == "FailedGetPodsMetric"
    scene.measure(cpu="100m")
    await asyncio.sleep(30)
    assert scene.size == 2, "the metric of pods might want more"
    scene.measure(cpu="100m", real="100m")
    await asyncio.sleep(30)
    assert scene.size == 1
    scene.running.cancel()


def external(**goal: str) -> dict[str, Any]:
    target = {"type": "Value", **goal}
    return {"type": "External", "external": {"metric": EXTERNAL["external"]["metric"], "target": target}}


@pytest.mark.parametrize(
    ("metric", "value", "reason", "why"),
    [
        ({"type": "Object"}, "1", "InvalidMetricSourceType", "metrics of type Object are not supported here"),
        ({"type": "Pods"}, "1", "InvalidMetricSourceType", "the metric has no field pods"),
        (
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Value", "value": "1"}}},
            "1", "FailedGetResourceMetric", "the target's averageValue is missing or 0",
        ),
        (resource(0), "1", "FailedGetResourceMetric", "the target of the pods that run is 0"),
        (external(), "1", "FailedGetExternalMetric", "the target's value is missing or 0"),
        (external(value="0"), "1", "FailedGetExternalMetric", "the target's value is missing or 0"),
        (external(value="1"), "much", "FailedGetExternalMetric", "'much' is not a quantity"),
    ],
)  # fmt: skip
def test_metric_that_cannot_be_computed_is_reported(
    metric: Mapping[str, Any], value: str, reason: str, why: str
) -> None:
    async def test(world: World) -> None:
        scene = Scene(world)
        await scene.start(metric)
        scene.measure(cpu="1", external=value)
        await asyncio.sleep(30)
        active = condition(scene.autoscaler, "ScalingActive")
        assert (active["reason"], active["message"]) == (reason, why)
        assert not scene.running.done()
        scene.running.cancel()

    in_virtual_time(test)()


@in_virtual_time
async def test_workload_scaled_to_none_is_left_alone(world: World) -> None:
    scene = Scene(world)
    await scene.start({**external(averageValue="1")})
    scene.measure(external="5")
    await world.change(DEPLOYMENTS, "web", replicas=0)
    await asyncio.sleep(30)
    assert scene.size == 0
    assert condition(scene.autoscaler, "ScalingActive")["reason"] == "ScalingDisabled"
    scene.running.cancel()


BUDGETS = "poddisruptionbudgets.policy"


def refused(world: World, pod: Stored) -> Object:
    """Have a budget refuse the eviction of a pod; return the details."""
    with pytest.raises(StatusError) as refusal:
        check(world.cluster, pod, dry_run=False)
    assert (refusal.value.code, refusal.value.reason) == (429, "TooManyRequests")
    return dict(refusal.value.details or {})


@in_virtual_time
async def test_budget_counts_what_its_pods_controllers_want(world: World) -> None:
    """A pod without a controller is not expected; a Deployment counts once, whatever its ReplicaSets want."""
    await world.create(DEPLOYMENTS, "d", replicas=3, selector=SELECTOR, template=a_template())
    await asyncio.sleep(30)
    await world.create("pods", "bare", containers=[{"name": "main", "image": "one"}])
    bare = world.get("pods", "bare")
    world.cluster.store.put(
        "pods", ("default", "bare"), {**bare, "metadata": {**bare["metadata"], "labels": {"app": "web"}}}
    )
    await asyncio.sleep(10)
    await world.create(BUDGETS, "keep", selector=SELECTOR, maxUnavailable=1)
    check(world.cluster, world.pods()[0], dry_run=False)
    status = world.get(BUDGETS, "keep")["status"]
    assert {key: status[key] for key in ("expectedPods", "desiredHealthy", "disruptionsAllowed")} == {
        "expectedPods": 3,
        "desiredHealthy": 2,
        "disruptionsAllowed": 2,
    }
    assert status["conditions"][0]["reason"] == "SufficientPods"
    world.delete(DEPLOYMENTS, "d")
    await asyncio.sleep(30)
    (left,) = world.pods()
    told = refused(world, left)["causes"][0]["message"]
    assert told == "The disruption budget keep does not allow evicting pods currently"
    assert world.get(BUDGETS, "keep")["status"]["conditions"][0]["reason"] == "InsufficientPods"


@in_virtual_time
async def test_job_pod_budget_says_why_it_is_uncomputable(world: World) -> None:
    """One that was computed before says it; one that never was is still being processed."""
    world.ends = lambda _: "Running"
    await world.create(JOBS, "j", template=a_template(restartPolicy="Never"))
    await asyncio.sleep(30)
    (pod,) = world.pods()
    await world.create(BUDGETS, "keep", selector=SELECTOR, minAvailable="50%")
    details = refused(world, pod)
    assert details["causes"][0]["message"] == (
        "The disruption budget keep is still being processed by the server."
    )
    assert details["retryAfterSeconds"] == 10
    await world.change(BUDGETS, "keep", minAvailable=1)
    needs = "The disruption budget keep needs 1 healthy pods and has 0 currently"
    assert refused(world, pod)["causes"][0]["message"] == needs
    stored = world.get(BUDGETS, "keep")
    spec = {**stored["spec"], "minAvailable": "50%"}
    world.cluster.store.put(BUDGETS, ("default", "keep"), {**stored, "spec": spec})
    details = refused(world, pod)
    why = "jobs.batch does not implement the scale subresource"
    assert details == {
        "causes": [
            {
                "reason": "DisruptionBudget",
                "message": f"The disruption budget keep does not allow evicting pods currently because it "
                f"failed sync: {why}",
            }
        ]
    }
    (condition,) = world.get(BUDGETS, "keep")["status"]["conditions"]
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", "SyncFailed", why)
