"""``corewise config check`` and the webhook refuse bad profiles with the same words.

The command names line and column; the webhook names the field, since it gets one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from textwrap import indent

import pytest
import yaml
from click.testing import CliRunner

from corewise.cli import corewise
from corewise.kube.admission import decode_review
from corewise.manager.webhooks import PROFILE
from manager.reviews import body, response_of, review, webhooks

LONG = "x" * 63
HEAD = """\
apiVersion: config.koordinator.sh/v1alpha1
kind: ClusterColocationProfile
metadata: {name: bad}
spec:
  selector: {matchLabels: {app: a}}
"""
NAME = '"Not A Name" cannot be a name'
OF_CONTROLLER = "belongs to the pod's controller"
LABEL = "a label value has at most 63 letters"


@pytest.mark.parametrize(
    ("spec", "column", "path", "said"),
    [
        ("qosClas: BE", 3, "spec.qosClas", 'did you mean "qosClass"?'),
        ("qosClass: BestEffort", 13, "spec.qosClass", "write LSE or LSR or LS or BE or SYSTEM"),
        ("priorityClassName: Not A Name", 22, "spec.priorityClassName", NAME),
        ("schedulerName: Not A Name", 18, "spec.schedulerName", NAME),
        ("probability: 150%", 16, "spec.probability", "not a percentage"),
        ("probability: 150", 16, "spec.probability", "outside 0..100"),
        ("labels: {a b: c}", 12, 'spec.labels["a b"]', "not a key"),
        ("labels: {a: b c}", 15, "spec.labels.a", LABEL),
        ("labels: [a]", 11, "spec.labels", "must be an object"),
        (
            "labels: {koordinator.sh/qosClass: BEE}",
            37,
            'spec.labels["koordinator.sh/qosClass"]',
            'mean "BE"?',
        ),
        (
            "labels: {koordinator.sh/priority-class: batch}",
            43,
            'spec.labels["koordinator.sh/priority-class"]',
            'did you mean "koord-batch"?',
        ),
        (
            "labels: {koordinator.sh/priority: low}",
            37,
            'spec.labels["koordinator.sh/priority"]',
            "whole number",
        ),
        (
            "annotations: {volcano.sh/qos-level: low}",
            39,
            'spec.annotations["volcano.sh/qos-level"]',
            "write a whole number in quotes, LC, HLS, LS or BE",
        ),
        ("labelKeysMapping: {a: b c}", 25, "spec.labelKeysMapping.a", "not a key"),
        ("labelKeysMapping: {a: pod-template-hash}", 25, "spec.labelKeysMapping.a", OF_CONTROLLER),
        ('labels: {controller-uid: "5"}', 28, 'spec.labels["controller-uid"]', OF_CONTROLLER),
        (
            "labelSuffixes: {controller-revision-hash: -x}",
            45,
            'spec.labelSuffixes["controller-revision-hash"]',
            OF_CONTROLLER,
        ),
        (
            "patch: {metadata: {labels: {pod-template-hash: x}}}",
            50,
            'spec.patch.metadata.labels["pod-template-hash"]',
            OF_CONTROLLER,
        ),
        ("labelKeysMapping: 5", 21, "spec.labelKeysMapping", "must be an object"),
        ('labelSuffixes: {a: "-"}', 22, "spec.labelSuffixes.a", 'no label value can end with "-"'),
        (f"labelSuffixes: {{a: -{LONG}}}", 22, "spec.labelSuffixes.a", "no label value can end with"),
        (f"{{labels: {{a: {LONG}}}, labelSuffixes: {{a: -x}}}}", 105, "spec.labelSuffixes.a", LABEL),
        ("patch: x", 10, "spec.patch", "must be an object"),
        ("patch: {status: {}}", 11, "spec.patch.status", "a pod has no such field"),
        ("patch: {spec: {hostNetwrk: true}}", 18, "spec.patch.spec.hostNetwrk", 'mean "hostNetwork"?'),
        (
            "patch: {spec: {hostNetwork: 1}}",
            31,
            "spec.patch.spec.hostNetwork",
            "must be of type boolean, not 1",
        ),
        ("patch: {spec: {$path: merge}}", 18, 'spec.patch.spec["$path"]', "unknown directive"),
        ("patch: {spec: {priority: 5500}}", 28, "spec.patch.spec.priority", "set priorityClassName"),
        ("patch: {spec: {priorityClassName: Not A Name}}", 37, "spec.patch.spec.priorityClassName", NAME),
        (
            "patch: {spec: {overhead: {cpu: 2 cores}}}",
            34,
            "spec.patch.spec.overhead.cpu",
            '"2 cores" is not a quantity: write one such as 500m, 2 or 4Gi',
        ),
        ("patch: {spec: {overhead: {cpu: -1}}}", 34, "spec.patch.spec.overhead.cpu", "-1 is below 0"),
        (
            "patch: {spec: {containers: [{image: x}]}}",
            31,
            "spec.patch.spec.containers[0]",
            "has no name, by which it is merged with the pod's: add it",
        ),
        (
            "patch: {metadata: {labels: {koordinator.sh/qosClass: BEE}}}",
            56,
            'spec.patch.metadata.labels["koordinator.sh/qosClass"]',
            'did you mean "BE"?',
        ),
    ],
)
def test_command_and_webhook_refuse_a_bad_profile(
    spec: str, column: int, path: str, said: str, tmp_path: Path
) -> None:
    if spec.startswith("{"):
        text, line = HEAD[: HEAD.index("spec:")] + f"spec: {spec}\n", 4
    else:
        text, line = HEAD + indent(spec, "  ") + "\n", 6
    file = tmp_path / "profile.yaml"
    file.write_text(text)
    checked = CliRunner().invoke(corewise, ["config", "check", str(file), "-o", "json"])
    (problem,) = [each for each in json.loads(checked.stdout)["problems"] if each["severity"] == "error"]
    assert checked.exit_code == 1
    assert (problem["line"], problem["column"], problem["path"]) == (line, column, path)
    assert said in problem["message"]

    request = review(PROFILE, yaml.safe_load(text), None, operation="CREATE", name="bad")
    response = response_of(asyncio.run(webhooks()[PROFILE](decode_review(body(request)))).body)
    assert response["allowed"] is False
    assert response["status"]["message"] == f"{path}: {problem['message']}"


def test_suffix_warns_since_controllers_may_select_that_label(tmp_path: Path) -> None:
    file = tmp_path / "profile.yaml"
    file.write_text(f"{HEAD}  labelSuffixes: {{team: -batch}}\n")
    checked = CliRunner().invoke(corewise, ["config", "check", str(file), "-o", "json"])
    (problem,) = json.loads(checked.stdout)["problems"]
    assert (checked.exit_code, problem["severity"]) == (0, "warning")
    assert problem["message"] == "pods whose controller selects them by this label keep its value"


def test_later_of_two_contradicting_profiles_is_refused(tmp_path: Path) -> None:
    first = HEAD.replace("bad", "z-first") + "  schedulerName: one\n"
    file = tmp_path / "profiles.yaml"
    file.write_text(f"{first}---\n{HEAD}  patch:\n    spec:\n      schedulerName: two\n")
    checked = CliRunner().invoke(corewise, ["config", "check", str(file), "-o", "json"])
    (problem,) = json.loads(checked.stdout)["problems"]
    assert checked.exit_code == 1
    assert (problem["line"], problem["column"]) == (15, 22)
    assert problem["path"] == "spec.patch.spec.schedulerName"
    assert "profiles bad and z-first set spec.schedulerName differently, to two and one" in problem["message"]


def test_permitted_strategic_merge_patch_directives_are_accepted(tmp_path: Path) -> None:
    patch = """\
patch:
  metadata: {labels: {a: null}}
  spec:
    $retainKeys: [containers]
    containers:
      - {name: c, resources: {limits: {cpu: 2, memory: 1Gi}, $patch: replace}}
      - {name: d, $patch: delete}
      - {$patch: replace}
    $setElementOrder/tolerations: [{key: x}]
    terminationGracePeriodSeconds: null
    tolerations: [{key: x, operator: Exists}]
"""
    file = tmp_path / "profile.yaml"
    file.write_text(HEAD + indent(patch, "  "))
    checked = CliRunner().invoke(corewise, ["config", "check", str(file)])
    assert (checked.exit_code, checked.stdout) == (0, "")
