"""A cluster for golden tests: the local API server as a process, called over HTTP as anybody calls it."""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import corewise
from api_process import local_api_server

T = TypeVar("T")
WITHIN = 90.0
PATHS = {
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/{}/pods",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Event": "/api/v1/namespaces/{}/events",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "NodeResourceTopology": "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"


class Cluster:
    """An API server, and an administrator's way to it."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        document = json.loads(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        pem = kubeconfig.with_name("client.pem")
        pem.write_bytes(
            b"".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key"))
        )
        self.server: str = cluster["server"]
        self._tls = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
        )
        self._tls.load_cert_chain(pem)

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        kind: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Return the status and the decoded answer."""
        return fetch(
            self.server + path, self._tls, method, body, {"Content-Type": kind, **(dict(headers or {}))}
        )

    def get(self, kind: str, name: str = "", namespace: str = "") -> Any:
        """Return an object, or the items of a list of all namespaces."""
        path = PATHS[kind].replace("/namespaces/{}", "") if not namespace else PATHS[kind].format(namespace)
        answer = self.call("GET", f"{path}/{name}" if name else path)[1]
        return answer if name else answer["items"]

    def watch(self, kind: str) -> Iterator[tuple[str, Any]]:
        """Yield the objects of a kind and then each change, as its type and the object."""
        path = PATHS[kind].replace("/namespaces/{}", "")
        request = Request(f"{self.server}{path}?watch=true")  # noqa: S310 - of a server started here
        with urlopen(request, context=self._tls) as answer:  # noqa: S310 - likewise
            for line in answer:
                event = json.loads(line)
                yield event["type"], event["object"]

    def create(self, manifest: Mapping[str, Any]) -> Any:
        """Create an object, and write its status if there is one."""
        namespace = manifest["metadata"].get("namespace", "")
        path = PATHS[manifest["kind"]].format(namespace)

        def created() -> Any:
            status, answer = self.call("POST", path, manifest)
            return answer if status < 300 else None

        answer = until(created, f"{manifest['kind']} cannot be created")
        if manifest["kind"] in {"Node", "Pod"} and "status" in manifest:
            where = f"{path}/{manifest['metadata']['name']}/status"
            self.call("PATCH", where, {"status": manifest["status"]}, MERGE)
        return answer

    def patch(self, kind: str, name: str, body: object, namespace: str = "") -> tuple[int, Any]:
        return self.call("PATCH", f"{PATHS[kind].format(namespace)}/{name}", body, MERGE)

    def kubelet_writes(self, node: str, cpu: str, ready: str = "True") -> tuple[int, Any]:
        """Write a node's raw status as its kubelet does."""
        amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
        condition = {
            "type": "Ready",
            "status": ready,
            "lastHeartbeatTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        return self.call(
            "PATCH",
            f"/api/v1/nodes/{node}/status",
            {"status": {"capacity": amounts, "allocatable": amounts, "conditions": [condition]}},
            STRATEGIC,
            {"Impersonate-User": f"system:node:{node}", "Impersonate-Group": "system:nodes"},
        )

    def token(self, namespace: str, name: str) -> str:
        """Return a token of a ServiceAccount, as ``kubectl create token`` does."""
        path = f"{PATHS['ServiceAccount'].format(namespace)}/{name}/token"
        answer = self.call(
            "POST", path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        )
        return str(answer[1]["status"]["token"])

    def events(self) -> list[str]:
        """Return the Events as text, in order of the objects they are about; their counts are left out."""
        return sorted(
            "{type} {reason} {kind}/{name}: {message}".format(**each, **each["involvedObject"])
            for each in self.get("Event")
        )


def fetch(
    url: str,
    tls: ssl.SSLContext | None,
    method: str = "GET",
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Any]:
    """Return the status and the answer, decoded if it is JSON."""
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    request = Request(url, data, dict(headers or {}), method=method)  # noqa: S310 - of a server started here
    try:
        with urlopen(request, context=tls, timeout=WITHIN) as answer:  # noqa: S310 - likewise
            status, text = answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            status, text = error.code, error.read().decode()
    return status, json.loads(text) if text.startswith(("{", "[")) else text


def until(found: Callable[[], T], what: str) -> T:
    """Wait until something is found, and return it."""
    deadline = time.monotonic() + WITHIN
    while not (answer := found()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return answer


@contextmanager
def running_cluster(directory: Path, objects: Path) -> Iterator[Cluster]:
    """Run an API server that has the objects of a file."""
    with local_api_server(directory) as kubeconfig:
        cluster = Cluster(kubeconfig)
        for manifest in json.loads(objects.read_text()):
            cluster.create(manifest)
        yield cluster


class Program:
    """A program of corewise as a process; ``sources``: where Python finds it, if not where this one did."""

    def __init__(self, directory: Path, *arguments: str, sources: str = "") -> None:
        self._out, self._err = directory / "program.stdout", directory / "program.stderr"
        with self._out.open("w") as out, self._err.open("w") as err:
            command = [sys.executable, "-m", "corewise", *arguments]
            environment = {**os.environ, **({"PYTHONPATH": sources} if sources else {})}
            self._process = subprocess.Popen(command, stdout=out, stderr=err, cwd=directory, env=environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self.code = self._process.wait(WITHIN)

    @property
    def printed(self) -> str:
        return self._out.read_text()

    def find(self, pattern: str) -> str:
        """Wait for a line on stderr; return the first group in it."""

        def found() -> str:
            match = re.search(pattern, self._err.read_text())
            assert match or self._process.poll() is None, self._err.read_text()
            return match[1] if match else ""

        return until(found, f"{pattern} is not in {self._err}")

    @property
    def health(self) -> str:
        return "http://" + self.find(r"health: listens on (\S+)")

    def ends(self) -> None:
        """Wait until the program has come to its end."""
        self._process.wait(WITHIN)

    def is_ready(self) -> None:
        """Wait until the program says so."""
        until(lambda: fetch(f"{self.health}/readyz", None)[0] == 200, "not ready")

    def metrics(self, *kept: str) -> str:
        """Return the text of /metrics, with values only of the metrics that match one of the patterns.

        Whether a write meets a conflict depends on who was faster: such samples are left out.
        """
        text = fetch(f"{self.health}/metrics", None)[1].replace(f'"{corewise.__version__}"', '"VERSION"')
        texts = re.split(r"^(?=# HELP )", text, flags=re.MULTILINE)
        families = (
            [line for line in each.splitlines() if 'result="conflict"' not in line]
            for each in texts
            if each.startswith("# HELP corewise_")
        )
        return "\n".join(
            line
            for head, *rest in families
            for line in (head, *sorted((_measured(each, kept) for each in rest), key=_labels))
        )


def _measured(line: str, kept: Iterable[str]) -> str:
    sample, _, value = line.rpartition(" ")
    if line.startswith("#") or any(re.match(pattern, sample) for pattern in kept):
        return line
    return f"{sample} N" if value else line


def _labels(line: str) -> str:
    """Return the sort key of a metric's line: buckets of one histogram stay as they are."""
    return re.sub(r'_(bucket|count|sum)(?=[{ ])|le="[^"]*",?|\{\}| .*', "", line) if line[0] != "#" else ""
