"""Stock kubectl, the real binary: Deployments and Jobs, scaling and rollouts, and what takes a container."""

from __future__ import annotations

import pytest

from kubectl import PATIENCE, Kubectl, a_pod, until


def pods_of(kubectl: Kubectl, label: str) -> list[str]:
    return kubectl("get", "pods", "-l", label, "-o", "name").split()


def test_deployment_is_created_scaled_and_deleted_with_pods(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "deployment", name, "--image=nginx:1", "--replicas=2", "--", "sleep", "3600")
    until(lambda: len(pods_of(kubectl, f"app={name}")) == 2)
    pod = kubectl.json("get", pods_of(kubectl, f"app={name}")[0])
    assert pod["spec"]["containers"][0]["command"] == ["sleep", "3600"]
    assert kubectl("scale", "deployment", name, "--replicas=3") == f"deployment.apps/{name} scaled\n"
    until(lambda: len(pods_of(kubectl, f"app={name}")) == 3)
    assert (
        "expected"
        in kubectl.refused("scale", "deployment", name, "--current-replicas=2", "--replicas=4").lower()
    )
    kubectl("scale", "deployment", name, "--current-replicas=3", "--replicas=1")
    until(lambda: len(pods_of(kubectl, f"app={name}")) == 1)
    assert kubectl("get", "deployment", name, "--no-headers").split()[1] == "0/1"
    assert kubectl("get", "rs", "-l", f"app={name}", "--no-headers").split()[1:4] == ["1", "1", "0"]
    kubectl("delete", "deployment", name)
    until(
        lambda: (
            not pods_of(kubectl, f"app={name}")
            and not kubectl("get", "rs", "-l", f"app={name}", "-o", "name")
        )
    )


def test_what_a_deployment_leaves_as_orphans_stays(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "deployment", name, "--image=nginx:1")
    until(lambda: len(pods_of(kubectl, f"app={name}")) == 1)
    kubectl("delete", "deployment", name, "--cascade=false" if kubectl.minor < 20 else "--cascade=orphan")
    until(lambda: kubectl("get", "deployment", name, "--ignore-not-found") == "")
    orphan = kubectl.json("get", "rs", "-l", f"app={name}")["items"][0]
    assert "ownerReferences" not in orphan["metadata"]
    assert len(pods_of(kubectl, f"app={name}")) == 1
    kubectl("delete", "rs", "-l", f"app={name}")


def test_a_rollout_is_watched_restarted_paused_and_undone(kubectl: Kubectl, name: str) -> None:
    kubectl.needs(24)  # which can write a pod's status
    kubectl("create", "deployment", name, "--image=nginx:1")
    watching = kubectl.start("rollout", "status", "deployment", name)
    ready = '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'

    def run_pods() -> bool:
        for pod in pods_of(kubectl, f"app={name}"):
            kubectl.run("patch", pod, "--subresource=status", "-p", ready)
        return "successfully rolled out" in kubectl("rollout", "status", "deployment", name, "--watch=false")

    until(run_pods)
    said, _ = watching.communicate(timeout=PATIENCE)
    assert said.splitlines()[-1] == f'deployment "{name}" successfully rolled out'
    kubectl("set", "image", f"deployment/{name}", "nginx=nginx:2")
    until(lambda: len(pods_of(kubectl, f"app={name}")) == 2)
    kubectl("rollout", "restart", f"deployment/{name}")
    until(lambda: "3 " in kubectl("rollout", "history", f"deployment/{name}"))
    kubectl("rollout", "undo", f"deployment/{name}", "--to-revision=1")
    until(run_pods)
    assert kubectl("get", "deployment", name, "-o", "jsonpath={..containers[0].image}") == "nginx:1"
    assert kubectl("rollout", "history", f"deployment/{name}").split()[-2:] == ["4", "<none>"]
    kubectl("rollout", "pause", f"deployment/{name}")
    kubectl("set", "image", f"deployment/{name}", "nginx=nginx:3")
    assert "paused" in kubectl("describe", "deployment", name).lower()
    kubectl("rollout", "resume", f"deployment/{name}")
    until(lambda: "nginx:3" in kubectl("get", "pods", "-l", f"app={name}", "-o", "jsonpath={..image}"))
    kubectl("delete", "deployment", name)


def test_job_is_created_and_completes_with_its_pod(kubectl: Kubectl, name: str) -> None:
    kubectl.needs(24)  # which can write a pod's status
    kubectl("create", "job", name, "--image=busybox", "--", "sleep", "1")
    until(lambda: len(pods_of(kubectl, f"job-name={name}")) == 1)
    waiting = kubectl.start("wait", "--for=condition=complete", f"job/{name}", "--timeout=60s")
    pod = pods_of(kubectl, f"job-name={name}")[0]
    kubectl("patch", pod, "--subresource=status", "-p", '{"status":{"phase":"Succeeded"}}')
    waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 0
    assert kubectl("get", "job", name, "--no-headers").split()[1:3] == ["Complete", "1/1"]
    kubectl("delete", "job", name)
    until(lambda: not pods_of(kubectl, f"job-name={name}"))


def test_run_makes_a_pod_and_expose_a_service(kubectl: Kubectl, name: str) -> None:
    kubectl("run", name, "--image=nginx:1", "--port=80", "--restart=Never", "--", "sleep", "3600")
    assert kubectl.json("get", "pod", name)["spec"]["containers"][0]["args"] == ["sleep", "3600"]
    kubectl("expose", "pod", name, "--port=80")
    assert kubectl.json("get", "service", name)["spec"]["selector"] == {"run": name}
    kubectl("delete", "pod,service", name)


@pytest.mark.parametrize("command", ["exec NAME -- ls", "attach NAME", "cp NAME:/x /dev/null", "logs NAME"])
def test_commands_that_need_a_container_are_refused_clearly(
    kubectl: Kubectl, name: str, command: str
) -> None:
    name = name.rstrip("-")
    kubectl("create", "-f", "-", stdin=a_pod(name))
    said = kubectl.refused(*command.replace("NAME", name).split())
    kubectl("delete", "pod", name)
    assert f'pod "{name}" ' in said
    assert "the local cluster simulates its nodes and runs no containers" in said


def test_port_forward_to_running_pod_is_refused_clearly(kubectl: Kubectl, name: str) -> None:
    kubectl.needs(24)  # which can write a pod's status
    kubectl("create", "-f", "-", stdin=a_pod(name))
    kubectl("patch", "pod", name, "--subresource=status", "-p", '{"status":{"phase":"Running"}}')
    said = kubectl.refused("port-forward", f"pod/{name}", ":80")
    kubectl("delete", "pod", name)
    assert "has no ports to forward: the local cluster simulates its nodes and runs no containers" in said
