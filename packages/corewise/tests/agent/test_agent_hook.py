"""What the container runtime is answered: kubelet's quota divided, once, and only where it is to be."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from agent.fake_node import FakeNode, container, container_id, pod
from agent.pinning_node import PinNode, claim, pin_pod
from corewise.agent.cgroups import NodeCgroups
from corewise.agent.local_node import LocalNode
from corewise.agent.objects import QuotaPod, QuotaPodStatus
from corewise.agent.runtime import RuntimeHook
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.writing.journal import MemoryLog
from corewise.nri.messages import ContainerAdjustment, CPUResources, LifecycleEvent, NRIContainer, PodSandbox
from corewise.prometheus.exposition import Exposition
from corewise.quantities import Microseconds
from corewise.vocabulary.metrics import METRICS, NRI_DIVIDED
from corewise.vocabulary.names import AMPLIFICATION_RATIO, NORMALIZATION_RATIO, QOS_CLASS

RATIO = {NORMALIZATION_RATIO: "1.50", AMPLIFICATION_RATIO: '{"cpu":1.50}'}
SANDBOX = PodSandbox("s", "web", "uid-web", "default")
WEB = pod("web", container("a", "1"))


class Hooked:
    def __init__(self, root: Path) -> None:
        self.node = FakeNode(root)
        self.metrics = Exposition(METRICS)
        self.woken = 0
        self.local = LocalNode("n1", root, NodeCgroups(root, "/", MemoryLog(), now=lambda: 1.0))
        self.pods: list[QuotaPod] = []
        self.hook = RuntimeHook(self.local, lambda: self.pods, self.metrics, self.wake)

    def wake(self) -> None:
        self.woken += 1


@pytest.fixture
def hooked(tmp_path: Path) -> Hooked:
    return Hooked(tmp_path)


def asked(quota: int | None) -> CPUResources:
    return CPUResources(None if quota is None else Microseconds(quota), Microseconds(100_000))


async def test_container_is_created_and_updated_with_divided_quota(hooked: Hooked) -> None:
    hooked.local.see(RATIO)
    created = NRIContainer("c", "s", "a", cpu=asked(100_000))
    assert await hooked.hook.on_create(SANDBOX, created) == ContainerAdjustment(Microseconds(66_667))
    running = NRIContainer("c", "s", "a", cpu=asked(66_667))
    update = await hooked.hook.on_update(SANDBOX, running, asked(200_000))
    assert update == ContainerAdjustment(Microseconds(133_334))
    assert hooked.metrics.value(NRI_DIVIDED, "CREATE_CONTAINER") == 1
    assert hooked.metrics.value(NRI_DIVIDED, "UPDATE_CONTAINER") == 1


@pytest.mark.parametrize("quota", [None, -1, 0])
async def test_update_of_something_else_leaves_the_quota_alone(hooked: Hooked, quota: int | None) -> None:
    hooked.local.see(RATIO)
    running = NRIContainer("c", "s", "a", cpu=asked(66_667))
    assert await hooked.hook.on_update(SANDBOX, running, asked(quota)) is None


async def test_unknown_or_missing_ratio_divides_nothing(hooked: Hooked) -> None:
    created = NRIContainer("c", "s", "a", cpu=asked(100_000))
    assert await hooked.hook.on_create(SANDBOX, created) is None
    hooked.local.see({NORMALIZATION_RATIO: "1.00"})
    assert await hooked.hook.on_create(SANDBOX, created) is None
    assert hooked.metrics.value(NRI_DIVIDED, "CREATE_CONTAINER") == 0


@pytest.mark.parametrize("version", Version)
async def test_a_pod_that_owns_cpus_keeps_its_quota(tmp_path: Path, version: Version) -> None:
    """A claim counts from the sandbox on; one that is refused, or none, exempts no pod."""
    node = PinNode(tmp_path, version)
    node.ratio(150)
    hook = RuntimeHook(node.local, list, Exposition(METRICS), lambda: None)
    created = NRIContainer("c", "s", "a", cpu=asked(100_000))
    divided = ContainerAdjustment(Microseconds(66_667))
    for name, status, undecided, decided in (
        ("owner", claim("0-3"), None, None),
        ("rival", claim("3-5"), None, divided),
        ("idle", None, divided, divided),
    ):
        pod = pin_pod(name, status)
        node.make(node.cgroup(pod))
        sandbox = PodSandbox(
            "s",
            name,
            pod.uid,
            "default",
            labels={QOS_CLASS: "LSR"},
            annotations=pod.metadata.annotations,
        )
        assert await hook.on_create(sandbox, created) == undecided
        await hook.on_run_pod_sandbox(sandbox)
        assert await hook.on_create(sandbox, created) == decided


@pytest.mark.parametrize("version", Version)
async def test_containers_of_owners_start_unlimited_and_regain_quotas(
    tmp_path: Path, version: Version
) -> None:
    """Once the pod's own quota is lifted; also if the agent is killed before it has seen the container."""
    node = PinNode(tmp_path, version)
    owner, web = pin_pod("owner", claim("0-3"), qos="Guaranteed"), pin_pod("web")
    node.start(owner, web)
    node.remove(node.cgroup(owner, "a"))
    hook = RuntimeHook(node.local, lambda: [owner, web], Exposition(METRICS), lambda: None)
    sandbox = PodSandbox("s", "owner", owner.uid, "default", annotations=owner.metadata.annotations)
    container = NRIContainer("c", "s", "a", cpu=asked(100_000))
    assert await hook.on_create(sandbox, container) is None
    node.cycle(owner, web)
    unlimited = ContainerAdjustment(Microseconds(-1))
    assert await hook.on_create(sandbox, container) == unlimited
    assert await hook.on_update(sandbox, container, asked(200_000)) == unlimited
    assert await hook.on_update(sandbox, container, asked(None)) is None
    assert await hook.on_create(PodSandbox("s", "web", web.uid, "default"), container) is None
    for seen in (True, False):
        node.make(node.cgroup(owner, "a"))
        node.machine.write(owner, "a", None)
        if seen:
            assert not [each for each in node.cycle(owner, web).written if each.file.startswith("cpu.c")]
        node.restart()
        released = msgspec.structs.replace(
            owner, metadata=msgspec.structs.replace(owner.metadata, annotations={})
        )
        node.cycle(released, web)
        assert node.machine.quota(owner, "a") == 100_000
        node.cycle(owner, web)
        node.remove(node.cgroup(owner, "a"))
        node.cycle(owner, web)


async def created_divided(hooked: Hooked) -> str:
    """Have the runtime create the container of WEB under ratio 1.50; return its ID."""
    hooked.local.see(RATIO)
    plain_id = container_id("web", "a").partition("://")[2]
    await hooked.hook.on_create(SANDBOX, NRIContainer(plain_id, "s", "a", cpu=asked(100_000)))
    hooked.node.start(WEB)
    hooked.node.write(WEB, "a", 66_667)
    return plain_id


async def test_container_created_divided_regains_quota_at_ratio_one(hooked: Hooked) -> None:
    """The ratio goes before the API shows the container's ID."""
    await created_divided(hooked)
    hooked.local.see({NORMALIZATION_RATIO: "1.00"})
    hooked.local.cycle([])
    for _ in range(2):
        hooked.local.cycle([WEB])
        assert hooked.node.quota(WEB, "a") == 100_000
        hooked.node.write(WEB, "a", 66_667)  # as the runtime does that updates another resource


async def test_limit_added_by_a_resize_stays_divided(hooked: Hooked) -> None:
    """The runtime is told before the API shows the new limit."""
    unlimited = pod("web", container("a"))
    plain_id = await created_divided(hooked)
    for _ in range(2):
        hooked.local.cycle([unlimited])
        assert hooked.node.quota(WEB, "a") == 66_667
    assert plain_id in hooked.local.answered
    hooked.local.cycle([WEB])
    assert hooked.node.quota(WEB, "a") == 66_667
    hooked.local.see({NORMALIZATION_RATIO: "1.00"})
    hooked.local.cycle([WEB])
    assert hooked.node.quota(WEB, "a") == 100_000


async def test_created_container_of_exempt_pod_regains_quota(hooked: Hooked) -> None:
    await created_divided(hooked)
    offline = pod("web", container("a", "1"), labels={QOS_CLASS: "BE"})
    hooked.local.cycle([offline])
    assert hooked.node.quota(WEB, "a") == 100_000
    hooked.node.write(WEB, "a", 66_667)
    assert not hooked.local.cycle([offline]).written


@pytest.mark.parametrize("gone", ["removed", "not listed", "updated"])
async def test_answers_about_ended_containers_are_forgotten(hooked: Hooked, gone: str) -> None:
    plain_id = await created_divided(hooked)
    hooked.local.see({NORMALIZATION_RATIO: "1.00"})
    running = NRIContainer(plain_id, "s", "a", cpu=asked(66_667))
    if gone == "removed":
        await hooked.hook.on_event(LifecycleEvent.REMOVE_CONTAINER, SANDBOX, running)
    elif gone == "not listed":
        await hooked.hook.on_synchronize([SANDBOX], [])
    else:
        assert await hooked.hook.on_update(SANDBOX, running, asked(100_000)) is None
    assert not hooked.local.cycle([WEB]).written


@pytest.mark.parametrize("version", Version)
async def test_created_unlimited_regains_quota_once_shown(tmp_path: Path, version: Version) -> None:
    """Its pod has lost its CPUs before the API shows the container."""
    node = PinNode(tmp_path, version)
    owner = pin_pod("owner", claim("0-3"), qos="Guaranteed")
    node.start(owner)
    node.cycle(owner)
    plain_id = owner.status.container_statuses[0].container_id.partition("://")[2]
    sandbox = PodSandbox("s", "owner", owner.uid, "default", annotations=owner.metadata.annotations)
    hook = RuntimeHook(node.local, lambda: [owner], Exposition(METRICS), lambda: None)
    node.remove(node.cgroup(owner, "a"))
    unshown = msgspec.structs.replace(owner, status=QuotaPodStatus("Running", "Guaranteed"))
    node.cycle(unshown)
    created = NRIContainer(plain_id, "s", "a", cpu=asked(100_000))
    assert await hook.on_create(sandbox, created) == ContainerAdjustment(Microseconds(-1))
    no_claim = msgspec.structs.replace(owner.metadata, annotations={})
    node.cycle(msgspec.structs.replace(unshown, metadata=no_claim))
    node.make(node.cgroup(owner, "a"))
    node.machine.write(owner, "a", None)
    node.cycle(msgspec.structs.replace(owner, metadata=no_claim))
    assert node.machine.quota(owner, "a") == 100_000


async def test_quota_with_cpu_of_claims_is_not_divided(hooked: Hooked) -> None:
    hooked.local.see(RATIO)
    claims = [{"resourceClaimName": "c", "direct": [{"name": "cpu", "quantity": "1"}]}]
    hooked.pods = [pod("web", container("a", "1"), status={"nodeAllocatableResourceClaimStatuses": claims})]
    created = NRIContainer("c", "s", "a", cpu=asked(200_000))
    assert await hooked.hook.on_create(SANDBOX, created) is None


async def test_the_smallest_quota_is_not_divided_further(hooked: Hooked) -> None:
    hooked.local.see(RATIO)
    assert await hooked.hook.on_create(SANDBOX, NRIContainer("c", "s", "a", cpu=asked(1000))) is None


async def test_connecting_runtime_receives_quotas_of_running_containers(hooked: Hooked) -> None:
    hooked.node.start(WEB)
    hooked.pods = [WEB]
    hooked.local.see(RATIO)
    hooked.local.cycle(hooked.pods)
    plain_id = container_id("web", "a").partition("://")[2]
    undivided = NRIContainer(plain_id, "s", "a", cpu=asked(100_000))
    stranger = NRIContainer("other", "s", "b", cpu=asked(100_000))
    (update,) = await hooked.hook.on_synchronize([SANDBOX], [undivided, stranger])
    assert (update.container_id, update.quota) == (plain_id, 66_667)
    divided = NRIContainer(plain_id, "s", "a", cpu=asked(66_667))
    assert not await hooked.hook.on_synchronize([SANDBOX], [divided])


async def test_what_begins_wakes_the_reconciler(hooked: Hooked) -> None:
    await hooked.hook.on_run_pod_sandbox(SANDBOX)
    await hooked.hook.on_event(LifecycleEvent.POST_START_CONTAINER, SANDBOX, NRIContainer("c"))
    await hooked.hook.on_event(LifecycleEvent.REMOVE_CONTAINER, SANDBOX, NRIContainer("c"))
    assert hooked.woken == 2


@pytest.mark.parametrize("version", Version)
async def test_pod_has_its_cpus_before_its_first_container(tmp_path: Path, version: Version) -> None:
    """The API may tell of it later than the runtime; its claim comes after those that are known."""
    node = PinNode(tmp_path, version)
    owner = pin_pod("owner", claim("0-3"), bound="01", qos="Guaranteed")
    node.start(owner)
    node.cycle(owner)
    hook = RuntimeHook(node.local, lambda: [owner], Exposition(METRICS), lambda: None)
    web, rival, late = pin_pod("web"), pin_pod("rival", claim("3-5")), pin_pod("late", claim("4-5"))
    for new, cpus in ((web, "4-7"), (rival, "4-7"), (late, "4-5")):
        node.make(node.cgroup(new))
        meta = new.metadata
        told = PodSandbox(
            "s", meta.name, meta.uid, meta.namespace, labels=meta.labels, annotations=meta.annotations
        )
        await hook.on_run_pod_sandbox(told)
        assert node.cpus(node.cgroup(new)) == cpus
    node.cycle(owner)
    assert [node.cpus(node.cgroup(each)) for each in (web, rival, late)] == ["6-7", "6-7", "4-5"]
    node.remove(node.cgroup(late))
    node.cycle(owner, web)
    assert [node.cpus(node.cgroup(each)) for each in (web, rival)] == ["4-7", "4-7"]
    node.cycle(web)
    assert [node.cpus(node.cgroup(each)) for each in (web, rival)] == ["0-2,6-7", "3-5"]


async def test_unknown_node_leaves_starting_pods_to_the_reconciler(hooked: Hooked) -> None:
    await hooked.hook.on_run_pod_sandbox(SANDBOX)
    hooked.local.see(RATIO)
    await hooked.hook.on_run_pod_sandbox(PodSandbox("s", "web", "../web", "default"))
    assert hooked.woken == 2
