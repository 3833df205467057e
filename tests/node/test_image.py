"""The container image, built from Debian's packages: a real containerd starts it as the manifests say.

The test is the kubelet: it takes arguments, security context, variables and volumes from ``deploy/``. Its own
are the ports, since pods are on the host's network (each is a free one of the loopback interface), kubelet's
directories and the agent's state. The programs find the local API server as in a cluster, by the token of
their ServiceAccount, and have the permissions of ``deploy/``.

COREWISE_TEST_IMAGE names an archive that was built before; reproducibility is not tested then.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
import yaml

from api_process import local_api_server
from corewise import __version__
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import NODES
from corewise_lab.control_plane import install, reserve_port, shipped_manifests
from golden.cluster import Cluster
from node.containerd import ContainerdNode, containerd_or_skip
from node.cri import HOST_NETWORK

ROOT = Path(__file__).parents[2]
MANIFESTS = ("manager/deployment.yaml", "scheduler/deployment.yaml", "agent/daemonset.yaml")
NODE = "n1"
OURS = "opt/corewise/"
AT_MOST = 120
"""Megabytes over the base, uncompressed."""
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Image:
    """An archive, its name in a container runtime, and what the build printed."""

    archive: Path
    name: str
    printed: str

    def index(self) -> tuple[Object, list[tarfile.TarFile]]:
        """Return the image's configuration and its layers."""
        with tarfile.open(self.archive) as tar:

            def blob(descriptor: Object) -> bytes:
                file = tar.extractfile(f"blobs/{descriptor['digest'].replace(':', '/')}")
                assert file is not None
                return file.read()

            index = tar.extractfile("index.json")
            assert index is not None
            manifest = json.loads(blob(json.load(index)["manifests"][0]))
            layers = [
                tarfile.open(fileobj=io.BytesIO(blob(layer)))  # noqa: SIM115 - the caller reads it
                for layer in manifest["layers"]
            ]
            return json.loads(blob(manifest["config"])), layers


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    if made := os.environ.get("COREWISE_TEST_IMAGE"):
        archive, printed = Path(made), ""
    else:
        if not shutil.which("mmdebstrap") or not any(map(shutil.which, ("buildah", "podman"))):
            pytest.skip("needs mmdebstrap, and buildah or podman")
        target = str(tmp_path_factory.mktemp("dist"))
        command = [sys.executable, "-m", "tools.image", "--base", "debian", "--twice", "--directory", target]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 0, f"{done.stdout}{done.stderr[-3000:]}"
        printed = done.stdout
        (archive,) = Path(target).glob("*-image-*.tar")
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json")
        assert index is not None
        name = json.load(index)["manifests"][0]["annotations"]["io.containerd.image.name"]
    return Image(archive, name, printed)


@pytest.fixture(scope="module")
def node(image: Image) -> Iterator[ContainerdNode]:
    with containerd_or_skip() as node:
        node.import_image(image.archive)
        yield node


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with local_api_server(tmp_path_factory.mktemp("cluster")) as kubeconfig:

        async def prepare() -> None:
            async with Client(load_config(str(kubeconfig))) as client:
                await install(client, shipped_manifests())
                await client.create(NODES.typed(dict), {"metadata": {"name": NODE}})

        asyncio.run(prepare())
        yield kubeconfig


def test_two_builds_of_one_commit_share_a_digest(image: Image) -> None:
    if not image.printed:
        pytest.skip("the image was built before")
    assert re.search(r"^digest   sha256:[0-9a-f]{64}$", image.printed, re.MULTILINE)


def test_labels_and_name_have_version_and_commit(image: Image) -> None:
    config, layers = image.index()
    labels = config["config"]["Labels"]
    (path,) = (name for name in layers[-1].getnames() if name.endswith("/corewise/cli/commit.txt"))
    kept = layers[-1].extractfile(path)
    assert kept is not None
    assert image.name == f"localhost/corewise:{__version__}"
    assert labels["org.opencontainers.image.version"] == __version__
    assert labels["org.opencontainers.image.revision"] == kept.read().decode().strip()


def test_image_is_small_without_compiler_or_root(image: Image) -> None:
    config, layers = image.index()
    files = {member.name: member.size for layer in layers for member in layer if member.isfile()}
    ours = {name: size for name, size in files.items() if name.startswith(OURS)}
    assert sum(ours.values()) <= AT_MOST * 1_000_000
    assert not [
        name for name in files if name.rpartition("/")[2] in {"gcc", "cc1", "cc", "ld", "pip", "pip3"}
    ]
    assert [name for name in ours if name.endswith("/corewise/kernel/chase.so")]
    modules = [name for name in ours if name.startswith(f"{OURS}lib/") and name.endswith(".py")]
    caches = [name for name in ours if name.endswith(".pyc")]
    assert len(modules) > 1000
    assert set(modules) <= {re.sub(r"__pycache__/(.*)\.cpython-\d+\.pyc", r"\1.py", name) for name in caches}
    user, _, group = config["config"]["User"].partition(":")
    assert int(user) > 0 < int(group)


def test_bill_of_materials_names_exactly_what_is_installed(image: Image) -> None:
    _, layers = image.index()
    bill = layers[-1].extractfile(f"{OURS}sbom.cdx.json")
    assert bill is not None
    components = json.load(bill)["components"]
    stated = {(_normal(each["name"]), each["version"]) for each in components}
    folders = (re.search(r"/([^/]+)-([^-/]+)\.dist-info/METADATA$", name) for name in layers[-1].getnames())
    assert stated == {(_normal(found[1]), found[2]) for found in folders if found}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_each_program_becomes_ready_in_its_security_context(
    image: Image, node: ContainerdNode, kubeconfig: Path, manifest: str, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    pod = yaml.safe_load((ROOT / "deploy" / manifest).read_text())
    spec = pod["spec"]["template"]["spec"]
    container = spec["containers"][0]
    ports = {str(port["containerPort"]): reserve_port() for port in container["ports"]}
    fields = _container(spec, container, ports, _volumes(spec, tmp_path))
    _add_service_account(
        fields, kubeconfig, pod["metadata"]["namespace"], spec["serviceAccountName"], tmp_path
    )
    with _running(node, image, fields, tmp_path) as (number, log):
        stated = node.spec(number)
        context = spec["securityContext"]
        asked = container["securityContext"]
        assert stated["process"]["user"]["uid"] == context["runAsUser"]
        assert context["runAsUser"] != 0 or not context.get("runAsNonRoot")
        added = {f"CAP_{name}" for name in asked["capabilities"].get("add", ())}
        assert set(stated["process"]["capabilities"].get("bounding", ())) == added
        assert stated["process"]["noNewPrivileges"] is True
        assert stated["root"]["readonly"] is True
        assert stated["linux"]["seccomp"]["defaultAction"] == "SCMP_ACT_ERRNO"
        probe = container["readinessProbe"]["httpGet"]
        (port,) = (str(port["containerPort"]) for port in container["ports"] if port["name"] == probe["port"])
        url = f"http://127.0.0.1:{ports[port]}{probe['path']}"

        def ready() -> bool:
            assert node.cri.exit_code(number) is None, log.read_text()
            return _answers(url)

        node.wait_for(ready, f"{container['name']} is ready")
    assert "Read-only file system" not in log.read_text()
    assert "Traceback" not in log.read_text()


def test_compute_names_the_distribution_the_image_lacks(
    image: Image, node: ContainerdNode, tmp_path: Path
) -> None:
    context = {**HOST_NETWORK, "readonly_rootfs": True, "run_as_user": {"value": 65532}}
    fields = {
        "metadata": {"name": "compute"},
        "args": ["compute", "run", "--state-dir", "/state"],
        "mounts": [{"container_path": "/state", "host_path": _directory(tmp_path / "state")}],
        "linux": {"security_context": context},
    }
    with _running(node, image, fields, tmp_path) as (number, log):
        node.wait_for(lambda: node.cri.exit_code(number) is not None, "compute ends")
        assert node.cri.exit_code(number) == 5
        assert "corewise compute is part of corewise-openstack, which is not installed" in log.read_text()


@contextmanager
def _running(node: ContainerdNode, image: Image, fields: Object, logs: Path) -> Iterator[tuple[str, Path]]:
    """Run a container of the image in a pod of its own; yields its ID and its log."""
    with node.pod(logs=logs) as pod:
        number = node.cri.create_as(pod, image={"image": image.name}, log_path="log", **fields)
        node.cri.start(number)
        yield number, logs / "log"


def _container(
    spec: Object, container: Object, ports: Mapping[str, int], volumes: Mapping[str, str]
) -> Object:
    """Return the fields of the CRI's ContainerConfig, as a kubelet makes them from a pod."""
    context, security = spec["securityContext"], container["securityContext"]
    capabilities = security["capabilities"]
    arguments = [
        re.sub(r"-listen=:(\d+)$|^--listen=:(\d+)$", lambda found: _listen(found, ports), argument)
        for argument in container["args"]
    ]
    return {
        "metadata": {"name": container["name"]},
        "args": arguments,
        "envs": [
            {"key": each["name"], "value": each.get("value", NODE)} for each in container.get("env", ())
        ],
        "mounts": [
            {
                "container_path": mount["mountPath"],
                "host_path": volumes[mount["name"]],
                "readonly": mount.get("readOnly", False),
            }
            for mount in container["volumeMounts"]
        ],
        "linux": {
            "security_context": {
                **HOST_NETWORK,
                "capabilities": {
                    "drop_capabilities": capabilities["drop"],
                    "add_capabilities": capabilities.get("add", []),
                },
                "privileged": security.get("privileged", False),
                "run_as_user": {"value": context["runAsUser"]},
                "run_as_group": {"value": context["runAsGroup"]},
                "readonly_rootfs": security["readOnlyRootFilesystem"],
                "no_new_privs": not security["allowPrivilegeEscalation"],
                "seccomp": {"profile_type": ("RuntimeDefault",).index(context["seccompProfile"]["type"])},
            }
        },
    }


def _listen(found: re.Match[str], ports: Mapping[str, int]) -> str:
    port = found[1] or found[2]
    return found[0].replace(f":{port}", f"127.0.0.1:{ports[port]}")


def _volumes(spec: Object, directory: Path) -> dict[str, str]:
    """Return a directory for each volume: the kernel's are this machine's, others the test's."""
    paths = {}
    for volume in spec["volumes"]:
        path = volume.get("hostPath", {}).get("path", "")
        paths[volume["name"]] = (
            path if path.startswith(("/proc", "/sys")) else _directory(directory / volume["name"])
        )
    for hidden in ("pki", "pods"):
        if "kubelet" in paths:
            Path(paths["kubelet"], hidden).mkdir()
    return paths


def _directory(path: Path) -> str:
    """Make a directory that anybody may write to, as an emptyDir is."""
    path.mkdir()
    path.chmod(0o777)
    return str(path)


def _add_service_account(
    fields: Object, kubeconfig: Path, namespace: str, name: str, directory: Path
) -> None:
    """Mount a token and set the variables, by which a pod finds the API server."""
    cluster = json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]
    server = urlsplit(cluster["server"])
    files = Path(_directory(directory / "service-account"))
    (files / "token").write_text(Cluster(kubeconfig).token(namespace, name))
    (files / "ca.crt").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    (files / "namespace").write_text(namespace)
    fields["mounts"].append({"container_path": SERVICE_ACCOUNT, "host_path": str(files), "readonly": True})
    fields["envs"] += [
        {"key": "KUBERNETES_SERVICE_HOST", "value": server.hostname},
        {"key": "KUBERNETES_SERVICE_PORT", "value": str(server.port)},
    ]


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=10) as answer:  # noqa: S310 - of this machine
            return bool(answer.status == 200)
    except (URLError, ConnectionError, TimeoutError):
        return False
