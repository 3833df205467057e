"""The overlays of deploy/scheduler: what kubectl makes of them is a scheduler that starts with its file."""

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
from corewise.scheduler.configuration import DEFAULTS, read_configuration

DEPLOY = Path(__file__).parents[2] / "deploy"
PLAIN, INTERFERENCE = OVERLAYS = ("scheduler-configuration", "interference")
KUBECTL = shutil.which("kubectl")
MOUNTED = "/etc/corewise/"


def test_shipped_file_of_interference_has_no_problems() -> None:
    parsed = read_configuration((DEPLOY / INTERFERENCE / "scheduler.yaml").read_text())
    assert not parsed.problems
    assert parsed.value is not None
    assert parsed.value.interference is not None
    assert parsed.value.interference.metrics.preset is Preset.COREWISE


def test_other_shipped_file_states_every_default() -> None:
    text = (DEPLOY / PLAIN / "scheduler.yaml").read_text()
    parsed = read_configuration(text)
    assert not parsed.problems
    assert parsed.value == DEFAULTS
    assert yaml.safe_load(text).keys() == {"scoring", "rememberedDecisions", "normalizeCPUSet"}


def added_options(overlay: str) -> dict[str, str]:
    patch = yaml.safe_load((DEPLOY / overlay / "deployment-patch.yaml").read_text())
    added = [each["value"] for each in patch if each["path"].endswith("/args/-")]
    return dict(each.split("=", 1) for each in added)


def test_patches_add_options_that_the_scheduler_takes() -> None:
    options = added_options(PLAIN) | added_options(INTERFERENCE)
    known = {option for parameter in command.params for option in parameter.opts}
    assert options.keys() <= known
    assert options["--config"].startswith(MOUNTED)
    assert checked_url(options["--prometheus"])


def kustomize(directory: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        ["kubectl", "kustomize", str(directory)], capture_output=True, text=True, check=False, timeout=120
    )
    if "unknown command" in done.stderr:
        pytest.skip("this kubectl has no kustomize")
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def check_scheduler(objects: list[dict[str, Any]], overlay: str) -> None:
    """Check that the one Deployment of the scheduler mounts the overlay's file."""
    (deployment, maps) = (
        next(
            each
            for each in objects
            if (each["kind"], each["metadata"]["name"]) == (kind, "corewise-scheduler")
        )
        for kind in ("Deployment", "ConfigMap")
    )
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"][0] == "scheduler"
    (file,) = [each for each in container["args"] if each.startswith("--config=")]
    content = maps["data"][file.removeprefix(f"--config={MOUNTED}")]
    assert content == (DEPLOY / overlay / "scheduler.yaml").read_text()
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert mounts["configuration"] + "/" == MOUNTED
    assert volumes["configuration"]["configMap"]["name"] == maps["metadata"]["name"]


@pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on PATH")
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_overlay_mounts_its_file_alone_and_in_deploy(overlay: str, tmp_path: Path) -> None:
    check_scheduler(kustomize(DEPLOY / overlay), overlay)
    copy = shutil.copytree(DEPLOY, tmp_path / "deploy")
    whole = copy / "kustomization.yaml"
    whole.write_text(whole.read_text().replace("  - scheduler\n", f"  - {overlay}\n"))
    check_scheduler(kustomize(copy), overlay)


@pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on PATH")
def test_deploy_alone_gives_the_scheduler_no_file() -> None:
    objects = kustomize(DEPLOY)
    assert not [each for each in objects if each["kind"] == "ConfigMap"]
    deployments = [each["spec"]["template"]["spec"] for each in objects if each["kind"] == "Deployment"]
    options = [option for pod in deployments for option in pod["containers"][0]["args"]]
    assert not [each for each in options if each.startswith("--config=")]
