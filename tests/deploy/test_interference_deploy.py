"""The manifests under deploy/interference: what kubectl makes of them is a scheduler that starts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from corewise.cli.scheduler import command
from corewise.config.interference.metrics import Preset
from corewise.prometheus.client import checked_url
from corewise.scheduler.configuration import read_configuration

DEPLOY = Path(__file__).parents[2] / "deploy" / "interference"
KUBECTL = shutil.which("kubectl")
MOUNTED = "/etc/corewise/"


def test_shipped_file_has_no_errors_or_warnings() -> None:
    parsed = read_configuration((DEPLOY / "scheduler.yaml").read_text())
    assert not parsed.problems
    assert parsed.value is not None
    assert parsed.value.interference is not None
    assert parsed.value.interference.metrics.preset is Preset.COREWISE


def test_the_patch_adds_options_that_the_scheduler_takes() -> None:
    patch = yaml.safe_load((DEPLOY / "deployment-patch.yaml").read_text())
    added = [each["value"] for each in patch if each["path"].endswith("/args/-")]
    options = dict(each.split("=", 1) for each in added)
    known = {option for parameter in command.params for option in parameter.opts}
    assert options.keys() <= known
    assert options["--config"].startswith(MOUNTED)
    assert checked_url(options["--prometheus"])


@pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on PATH")
def test_kubectl_builds_one_deployment_that_mounts_the_file() -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", str(DEPLOY)], capture_output=True, text=True, check=False, timeout=120
    )
    if "unknown command" in done.stderr:
        pytest.skip("this kubectl has no kustomize")
    assert done.returncode == 0, done.stderr
    objects: list[dict[str, Any]] = list(yaml.safe_load_all(done.stdout))
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    (maps,) = [each for each in objects if each["kind"] == "ConfigMap"]
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"][0] == "scheduler"
    (file,) = [each for each in container["args"] if each.startswith("--config=")]
    assert file.removeprefix(f"--config={MOUNTED}") in maps["data"]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert mounts["configuration"] + "/" == MOUNTED
    assert volumes["configuration"]["configMap"]["name"] == maps["metadata"]["name"]
