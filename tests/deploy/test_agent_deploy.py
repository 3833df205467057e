"""The manifests under deploy/agent: they load, bound the agent, and grant what it needs and no more."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.agent_world import ACCOUNT, AgentWorld, agent_world, eventually, until
from agent.fake_node import container, manifest
from agent.offline_node import batch_container, offline_manifest
from corewise.agent.kubelet import CONFIG_FILE, STATE_FILE
from corewise.agent.options import AgentOptions
from corewise.agent.topology_report import TOPOLOGIES
from corewise.cli.agent import command, restore_command
from corewise.kernel.memory_controllers import UNITS
from corewise.kernel.resctrl import MOUNT_POINT
from corewise.kube.client import PatchType
from corewise.kube.config import UserConfig
from corewise.kube.errors import NotFound
from corewise.vocabulary.names import CONFIG_NAME
from corewise.vocabulary.reasons import Reason
from deploy.test_deploy import Recorder, resource_of
from deploy.test_deploy import apply as install
from deploy.test_deploy import documents as kustomized
from kubedouble import LocalAPIServer
from kubedouble.authentication import User
from kubedouble.rbac import Rule
from tools import chart

DEPLOY = Path(__file__).parents[2] / "deploy" / "agent"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


READS = {"list", "watch"}
(DAEMON_SET,) = documents("daemonset.yaml")
POD = DAEMON_SET["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def test_the_kustomization_names_every_manifest() -> None:
    (kustomization,) = documents("kustomization.yaml")
    others = {"kustomization.yaml"}
    assert set(kustomization["resources"]) == {path.name for path in DEPLOY.glob("*.yaml")} - others


def test_agent_runs_as_root_with_one_capability_only() -> None:
    assert CONTAINER["securityContext"] == {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["PERFMON"]},
    }
    assert not {"hostPID", "hostNetwork", "hostIPC"} & POD.keys()
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_only_cgroups_and_the_journal_are_mounted_writable() -> None:
    writable = [mount["mountPath"] for mount in CONTAINER["volumeMounts"] if not mount.get("readOnly")]
    assert writable == ["/host/sys/fs/cgroup", "/host/var/lib/corewise"]
    volumes = {volume["name"] for volume in POD["volumes"]}
    assert {mount["name"] for mount in CONTAINER["volumeMounts"]} == volumes
    others = [volume for volume in POD["volumes"] if set(volume) != {"name", "hostPath"}]
    assert others == [{"name": "hidden", "emptyDir": {}}]


def test_kubelet_keys_and_pod_volumes_are_hidden() -> None:
    """The files that are read are replaced by kubelet, so their directory is mounted and not they."""
    mounted = {mount["mountPath"]: mount["name"] for mount in CONTAINER["volumeMounts"]}
    directory = Path("/host/var/lib/kubelet")
    below = {path for path in mounted if Path(path).is_relative_to(directory)}
    assert below == {f"{directory}", f"{directory}/pki", f"{directory}/pods"}
    assert {mounted[f"{directory}/{name}"] for name in ("pki", "pods")} == {"hidden"}
    assert {Path(f"/host/{name}").parent for name in (CONFIG_FILE, STATE_FILE)} == {directory}


def test_resctrl_and_memory_controllers_are_read_through_sys() -> None:
    (sys,) = (mount for mount in CONTAINER["volumeMounts"] if mount["name"] == "sys")
    assert sys["readOnly"] is True
    for path in (MOUNT_POINT, UNITS):
        assert path.startswith(sys["mountPath"].removeprefix("/host/") + "/")


def test_resctrl_writes_and_host_pids_must_be_enabled() -> None:
    rendered = chart.render({"agent": {"resctrl": {"enabled": True}}})
    (daemon_set,) = yaml.safe_load_all(rendered["agent/daemonset.yaml"])
    pod = daemon_set["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    paths = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert pod["hostPID"] is True
    assert paths == ["/host/sys/fs/cgroup", f"/host/{MOUNT_POINT}", "/host/var/lib/corewise"]
    assert container["securityContext"] == CONTAINER["securityContext"]


def test_selinux_options_label_the_agents_pod() -> None:
    rendered = chart.render({"agent": {"seLinuxOptions": {"type": "spc_t"}}})["agent/daemonset.yaml"]
    context = yaml.safe_load(rendered)["spec"]["template"]["spec"]["securityContext"]
    assert context == {**POD["securityContext"], "seLinuxOptions": {"type": "spc_t"}}
    assert "seLinuxOptions" not in POD["securityContext"]


def test_pods_are_evicted_only_where_switched_on() -> None:
    def roles(*, enabled: bool) -> dict[str, list[dict[str, Any]]]:
        rendered = chart.render({"agent": {"eviction": {"enabled": enabled}}})["agent/rbac.yaml"]
        found = [each for each in yaml.safe_load_all(rendered) if "rules" in each]
        return {f"{each['kind']} {each['metadata']['name']}": each["rules"] for each in found}

    usual, more = roles(enabled=False), roles(enabled=True)
    assert more.pop("ClusterRole corewise-agent-eviction") == [
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}
    ]
    assert more == usual
    assert "eviction" not in str(usual)


def test_everything_read_below_the_agent_root_is_mounted() -> None:
    options = AgentOptions(node="n1", root=Path("/host"))
    mounted = [mount["mountPath"] for mount in CONTAINER["volumeMounts"]]
    assert str(options.journal) in mounted
    sources = {each["name"]: each["hostPath"]["path"] for each in POD["volumes"] if "hostPath" in each}
    for mount in CONTAINER["volumeMounts"]:
        if mount["name"] in sources:
            assert mount["mountPath"] == "/host" + sources[mount["name"]]


def test_agent_accepts_the_arguments_of_its_manifest() -> None:
    known = {option for parameter in command.params for option in parameter.opts}
    assert CONTAINER["args"][0] == "agent"
    assert {argument.partition("=")[0] for argument in CONTAINER["args"][1:]} <= known


async def test_patch_of_the_page_restores_on_all_nodes(world: AgentWorld) -> None:
    """Pods that restore are never ready: a rollout that waits for them would stop at the usual 10 %."""
    page = (DEPLOY.parents[1] / "docs/operate/agent.md").read_text()
    (text,) = re.findall(r"patch daemonset corewise-agent --type=json .*? -p '(.*?)'", page, re.DOTALL)
    await install(world.client, DAEMON_SET)
    daemon_sets, (name, namespace) = resource_of(DAEMON_SET), ("corewise-agent", "corewise-system")
    patched = await world.client.patch(
        daemon_sets, name, json.loads(text), namespace=namespace, type=PatchType.JSON
    )
    assert patched["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == "100%"
    (container,) = patched["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["agent", restore_command.name]


def grants() -> Iterator[tuple[str, Rule]]:
    for role in documents("rbac.yaml"):
        for rule in role.get("rules", ()):
            for verb in rule["verbs"]:
                yield f"{verb} {rule['resources'][0]}", Rule.of({**rule, "verbs": [verb]})


@pytest.fixture
async def world(api_server: LocalAPIServer, tmp_path: Path) -> AsyncIterator[AgentWorld]:
    async with agent_world(api_server, tmp_path) as world:
        yield world


async def test_the_agent_uses_exactly_what_its_role_grants(
    world: AgentWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(world.server, user=ACCOUNT.name)
    monkeypatch.setattr(world.server.cluster.authorizer, "require", recorder.require)
    web = await world.start(manifest("web", container("a", "1")))
    await world.ratio("1.50")
    await world.allocatable()
    await world.label("true")
    await world.start(offline_manifest("slip", batch_container("a", limit=8)))

    async def applied(ratio: str) -> bool:
        found = await world.client.get(TOPOLOGIES, "n1")
        text = found["metadata"]["annotations"]["node.koordinator.sh/cpu-amplification-ratio-applied"]
        return bool(text == ratio)

    async with world.agent():
        await world.has(web, "a", 66_667)
        await eventually(lambda: applied("1.50"))
        await eventually(world.report)
        await world.cluster.told(Reason.BATCH_AMOUNT_TINY, "Pod")
        await world.ratio("2.00")
        await eventually(lambda: applied("2.00"))
    assert recorder.refused == []
    selectors = {(each.resource, each.field_selector) for each in recorder.wanted if each.verb in READS}
    assert selectors == {
        ("nodes", "metadata.name=n1"),
        ("pods", "spec.nodeName=n1"),
        ("configmaps", f"metadata.name={CONFIG_NAME}"),
    }
    unused = [text for text, rule in grants() if not any(rule.allows(each) for each in recorder.wanted)]
    assert unused == []


async def under_the_admission_policies(world: AgentWorld, node: str) -> None:
    """Install the policies, and give the agent the token of a pod on that node."""
    for policy in kustomized(DEPLOY.parent / "policies"):
        await install(world.client, policy)
    extra = {"authentication.kubernetes.io/node-name": (node,)}
    token = world.server.cluster.authenticator.tokens.issue(User(ACCOUNT.name, ACCOUNT.groups, extra=extra))
    world.config = replace(world.config, user=UserConfig(token=token))


async def test_agent_works_under_the_admission_policies(world: AgentWorld) -> None:
    await under_the_admission_policies(world, "n1")
    await world.allocatable()
    await world.label("true")

    async def reported() -> bool:
        found = await world.client.get(TOPOLOGIES, "n1")
        return bool(found)

    async with world.agent():
        await eventually(reported)
        await eventually(world.report)


async def test_token_of_another_agent_writes_nothing_and_logs(
    world: AgentWorld, caplog: pytest.LogCaptureFixture
) -> None:
    await under_the_admission_policies(world, "n2")
    async with world.agent():
        await until(lambda: "the agent of node n2 may not write the object of node n1" in caplog.text)
    with pytest.raises(NotFound):
        await world.client.get(TOPOLOGIES, "n1")
