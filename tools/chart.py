"""The products of the Helm chart: ``deploy/`` for kustomize, the chart's values.yaml, and the archive.

The chart's templates are the source of both ways to install: ``deploy/`` is what Helm's own engine renders
from them with the default values, so the two cannot drift apart. Comments of the templates stay in what is
rendered. The schema is the source of the values: values.yaml has its descriptions and defaults.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
import sys
import tarfile
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml

import corewise

PROJECT = Path(__file__).parents[1]
CHART = PROJECT / "charts" / "corewise"
NAMESPACE = "corewise-system"
NOTICE = "# Generated from {source}. Change that, then run: make generate\n"
KUSTOMIZED = ("manager", "scheduler", "agent", "policies")
NOT_KUSTOMIZED = {"scheduler/configuration.yaml"}
"""deploy/scheduler-configuration and deploy/interference make this ConfigMap from a file that users edit."""
CERT_MANAGER = {"certificates": {"from": "certManager"}}
CLIENT_CA = {"certificates": {"clientCA": "corewise-webhook-client-ca"}}
_ERROR = 3
_WIDTH = 118


class ChartError(Exception):
    """Helm's lint found errors."""


@contextmanager
def staged() -> Iterator[Path]:
    """Yield a copy of the chart without links, each of which Helm would write a line about."""
    with tempfile.TemporaryDirectory() as folder:
        yield shutil.copytree(CHART, Path(folder, CHART.name))


def render(values: dict[str, Any] | None = None) -> dict[str, str]:
    """Return the templates as Helm renders them, by path below templates/."""
    from helm_python import Chart  # noqa: PLC0415 - the engine is a development dependency, `make man` needs none

    with staged() as folder, Chart.load(folder) as chart:
        made = chart.render(values, name="corewise", namespace=NAMESPACE)
    return {path.partition("templates/")[2]: text for path, text in made.items() if text.strip()}


@cache
def _shipped(values: str) -> dict[str, str]:
    return render(json.loads(values) | {"image": {"tag": "latest"}})


def _manifest(template: str, values: dict[str, Any]) -> str:
    text = _shipped(json.dumps(values))[template]
    return NOTICE.format(source=f"charts/corewise/templates/{template}") + text.strip("\n") + "\n"


def _patch(template: str, values: dict[str, Any]) -> str:
    """Return the values' changes to a Deployment's pod, as a patch; image and replicas are the base's."""
    manifest = yaml.safe_load(_shipped(json.dumps(values))[template])
    pod = manifest["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    kept = {key: container[key] for key in ("name", "args", "volumeMounts")}
    pod = {"containers": [kept], "volumes": pod["volumes"]}
    metadata = {key: manifest["metadata"][key] for key in ("name", "namespace")}
    patch = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": metadata}
    source = f"charts/corewise/templates/{template} with {json.dumps(values)}"
    text = yaml.safe_dump(patch | {"spec": {"template": {"spec": pod}}}, sort_keys=False, width=_WIDTH)
    return NOTICE.format(source=source) + text


def generated() -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the files that are generated from the chart: path, and the function that renders it."""
    yield "charts/corewise/values.yaml", values
    yield "charts/corewise/README.md", readme
    yield "charts/corewise/Chart.yaml", chart_yaml
    yield "docs/operate/scale.md", sizes
    for folder in KUSTOMIZED:
        for path in sorted((CHART / "templates" / folder).glob("*.yaml")):
            if (template := f"{folder}/{path.name}") not in NOT_KUSTOMIZED:
                yield f"deploy/{template}", partial(_manifest, template, {})
    for name in ("certificate.yaml", "webhooks.yaml"):
        template = f"cert-manager/{name}"
        yield f"deploy/{template}", partial(_manifest, template, CERT_MANAGER)
    for folder, changed in (("cert-manager", CERT_MANAGER), ("client-ca", CLIENT_CA)):
        yield f"deploy/{folder}/deployment-patch.yaml", partial(_patch, "manager/deployment.yaml", changed)


def values() -> str:
    """Return values.yaml: the schema's descriptions and defaults."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    lines = _values_of(schema["properties"], "")
    return NOTICE.format(source="charts/corewise/values.schema.json") + "\n".join(lines).strip("\n") + "\n"


def _values_of(properties: dict[str, Any], indent: str) -> Iterator[str]:
    for name, schema in properties.items():
        default = schema.get("default")
        inner = schema.get("properties") if default is None else None
        if inner is None and default is None:
            continue
        if not indent:
            yield ""
        comment = f"{indent}# "
        yield from textwrap.wrap(
            schema["description"], _WIDTH, initial_indent=comment, subsequent_indent=comment
        )
        if inner is not None:
            yield f"{indent}{name}:"
            yield from _values_of(inner, indent + "  ")
        elif default and isinstance(default, dict | list):
            yield textwrap.indent(yaml.safe_dump({name: default}, sort_keys=False), indent).rstrip()
        else:
            yield f"{indent}{name}: {json.dumps(default)}"


_README = """\
# Helm chart of corewise

corewise manages the CPUs of a cluster: it makes a CPU mean the same on fast and slow nodes, gives pods CPUs
of their own, and lets offline pods use the CPU that online pods leave idle.

```
helm install corewise corewise-VERSION.tgz -n corewise-system --create-namespace \\
  --set image.repository=REGISTRY/corewise --set image.tag=TAG
helm test corewise -n corewise-system
```

Before you uninstall, run `corewise uninstall --check`: it lists what to undo first.
docs/operate/install.md describes the prerequisites, upgrades and how to uninstall.

## Values

This table is generated from values.schema.json: change that, then run `make generate`.

| value | default | what it does |
|---|---|---|
"""


def readme() -> str:
    """Return README.md: how to install, and a table of the schema's values."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    return _README + "".join(_rows_of(schema["properties"], ""))


def _rows_of(properties: dict[str, Any], path: str) -> Iterator[str]:
    for name, schema in properties.items():
        default = schema.get("default")
        text = schema["description"].replace("|", "\\|")
        if "properties" in schema and default is None:
            yield f"| **`{path}{name}`** | | {text} |\n"
            yield from _rows_of(schema["properties"], f"{path}{name}.")
        elif default is not None:
            yield f"| `{path}{name}` | `{json.dumps(default)}` | {text} |\n"


def sizes() -> str:
    """Return docs/operate/scale.md with the table of each program's requests, by the size of the cluster."""
    page = (PROJECT / "docs" / "operate" / "scale.md").read_text(encoding="utf-8")
    made = yaml.safe_load((CHART / "files" / "sizes.yaml").read_text(encoding="utf-8"))
    lines = ["| size | up to | program | requests | limit of memory |", "|---|---|---|---|---|"]
    for name, size in made.items():
        reach = f"{size.pop('nodes'):,} nodes, {size.pop('pods'):,} pods"
        for program, resources in size.items():
            requests = ", ".join(f"{key} {value}" for key, value in resources["requests"].items())
            limit = resources["limits"]["memory"]
            lines.append(f"| `{name}` | {reach} | {program} | {requests} | {limit} |")
    before, begin, rest = page.partition("<!-- sizes -->\n")
    return before + begin + "\n".join(lines) + "\n" + "".join(rest.partition("<!-- /sizes -->")[1:])


def chart_yaml() -> str:
    """Return Chart.yaml with the version of corewise."""
    text = (CHART / "Chart.yaml").read_text(encoding="utf-8")
    text = re.sub("(?m)^version: .*", f"version: {chart_version(corewise.__version__)}", text)
    return re.sub("(?m)^appVersion: .*", f"appVersion: {corewise.__version__}", text)


def chart_version(version: str) -> str:
    """Return a version of Python as one of Helm, which takes semantic versions only."""
    from packaging.version import Version  # noqa: PLC0415 - a development dependency too

    parsed = Version(version)
    before = ["".join(map(str, parsed.pre))] if parsed.pre else []
    before += [f"dev{parsed.dev}"] if parsed.dev is not None else []
    build = [f"post{parsed.post}"] if parsed.post is not None else []
    build += [parsed.local] if parsed.local else []
    release = f"{parsed.major}.{parsed.minor}.{parsed.micro}"
    return release + ("-" + ".".join(before) if before else "") + ("+" + ".".join(build) if build else "")


def package(destination: Path, epoch: int = 0) -> Path:
    """Lint the chart and write its archive, in which every file has one time.

    Raises:
        ChartError: if lint finds an error.
    """
    import helm_python  # noqa: PLC0415

    destination.mkdir(parents=True, exist_ok=True)
    with staged() as folder:
        found = helm_python.lint(folder, {}, strict=True)["messages"]
        if errors := [f"{each['path']}: {each['error']}" for each in found if each["severity"] == _ERROR]:
            raise ChartError("\n".join(errors))
        archive = Path(helm_python.package(folder, destination=destination))
    set_times(archive, epoch)
    return archive


def set_times(archive: Path, epoch: int) -> None:
    """Write a .tgz again, with one time for all of its files: Helm gives them the time of the build."""
    with tarfile.open(archive) as source:
        files = [(each.name, source.extractfile(each).read()) for each in source if each.isfile()]  # type: ignore[union-attr]
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as target,
    ):
        for name, text in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(text), epoch
            target.addfile(entry, io.BytesIO(text))


if __name__ == "__main__":
    try:
        print(package(PROJECT / "dist"))
    except ChartError as error:
        sys.exit(f"helm lint:\n{error}")
