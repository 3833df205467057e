"""``corewise scheduler`` on the command line: what it takes, what it refuses, and the stanza it prints."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from corewise.cli import corewise
from corewise.cli.errors import ExitCode, Failure
from corewise.engine import Allocation
from corewise.scheduler.configuration import (
    DEFAULTS,
    SchedulerConfiguration,
    SchedulerConfigurationError,
    parse_configuration,
)
from corewise.scheduler.installation import PROFILED_WEIGHT, scheduler_configuration
from kubedouble import LocalAPIServer


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(corewise, ["scheduler", *arguments])


def test_stock_kube_scheduler_reads_the_stanza() -> None:
    answer = invoke("config", "--url", "https://127.0.0.1:9443/", "--ca-file", "/etc/ca.crt")
    assert answer.exit_code == 0
    assert yaml.safe_load(answer.stdout) == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "pluginConfig": [
                    {
                        "name": "NodeResourcesFit",
                        "args": {
                            "scoringStrategy": {
                                "type": "LeastAllocated",
                                "resources": [
                                    {"name": "cpu", "weight": 1},
                                    {"name": "memory", "weight": 1},
                                    {"name": "kubernetes.io/batch-cpu", "weight": 10},
                                    {"name": "kubernetes.io/batch-memory", "weight": 1},
                                ],
                            }
                        },
                    }
                ]
            }
        ],
        "extenders": [
            {
                "urlPrefix": "https://127.0.0.1:9443",
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "weight": 1,
                "preemptVerb": "preempt",
                "bindVerb": "bind",
                "nodeCacheCapable": True,
                "ignorable": False,
                "httpTimeout": "2s",
                "enableHTTPS": True,
                "tlsConfig": {
                    "caFile": "/etc/ca.crt",
                    "certFile": "/etc/kubernetes/corewise/client.crt",
                    "keyFile": "/etc/kubernetes/corewise/client.key",
                },
                "managedResources": [{"name": "corewise.io/owned-cpus", "ignoredByScheduler": True}],
            }
        ],
    }


def test_certificate_is_checked_by_name_without_service_dns() -> None:
    name = "corewise-scheduler.corewise-system.svc"
    answer = invoke("config", "--url", "https://10.96.0.7:443", "--ca-file", "/ca", "--server-name", name)
    (extender,) = yaml.safe_load(answer.stdout)["extenders"]
    assert (extender["tlsConfig"]["caFile"], extender["tlsConfig"]["serverName"]) == ("/ca", name)
    assert "--server-name" not in answer.stdout
    assert "--server-name" in scheduler_configuration(tls={"caFile": "/ca"})
    assert "clientConnection.kubeconfig" in answer.stdout


def test_all_pods_option_keeps_verbs_and_states_cost() -> None:
    texts = {pods: invoke("config", "--pods", pods).stdout for pods in ("owned", "all")}
    documents = {pods: yaml.safe_load(text) for pods, text in texts.items()}
    (owned,), (every,) = (documents[pods]["extenders"] for pods in ("owned", "all"))
    assert owned.pop("managedResources")
    assert owned == every
    (fit,) = documents["all"]["profiles"][0]["pluginConfig"]
    assert fit["args"]["ignoredResources"] == ["corewise.io/owned-cpus"], "else no node offers it"
    assert "these pods wait; others are scheduled as ever" in " ".join(texts["owned"].split("\n# "))
    assert "NO POD IS SCHEDULED" in " ".join(texts["all"].split("\n# "))


@pytest.fixture
def scheduler_file(tmp_path: Path) -> Path:
    file = tmp_path / "scheduler.yaml"
    file.write_text("interference: {}\n")
    return file


@pytest.mark.parametrize(
    ("away", "ignorable", "said"),
    [
        ("", True, "are scheduled without it (whileAway: schedule)"),
        ("  whileAway: schedule\n", True, "are scheduled without it (whileAway: schedule)"),
        ("  whileAway: wait\n", False, "the former wait, and the latter too (whileAway: wait)"),
    ],
)
def test_interference_adds_extender_for_pods_with_a_stake(
    scheduler_file: Path, away: str, ignorable: bool, said: str
) -> None:
    scheduler_file.write_text(f"interference:\n  relative: true\n{away}")
    answer = invoke("config", "--config", str(scheduler_file))
    (owned, profiled) = yaml.safe_load(answer.stdout)["extenders"]
    assert owned["managedResources"][0]["name"] == "corewise.io/owned-cpus"
    assert owned["weight"] == 1
    assert {key: profiled[key] for key in profiled if key not in {"tlsConfig", "enableHTTPS"}} == {
        "urlPrefix": f"{owned['urlPrefix']}/interference",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": PROFILED_WEIGHT,
        "ignorable": ignorable,
        "httpTimeout": "500ms",
        "nodeCacheCapable": True,
        "managedResources": [{"name": "corewise.io/interference", "ignoredByScheduler": True}],
    }
    assert profiled["tlsConfig"] == owned["tlsConfig"]
    assert said in " ".join(answer.stdout.split("\n# "))


@pytest.mark.parametrize(
    ("arguments", "weights"),
    [
        (["--pods", "owned,profiled", "--weight", "7"], [1, 7]),
        (["--pods", "all", "--weight", "7"], [7]),
        (["--pods", "all"], [1]),
        (["--pods", "owned"], [1]),
    ],
)
def test_weight_is_that_of_interference_or_of_all(
    scheduler_file: Path, arguments: list[str], weights: list[int]
) -> None:
    answer = invoke("config", "--config", str(scheduler_file), *arguments)
    assert [each["weight"] for each in yaml.safe_load(answer.stdout)["extenders"]] == weights


def test_policy_command_prints_mark_for_profiles_at_stake(scheduler_file: Path) -> None:
    def names() -> list[str]:
        answer = invoke("policy", "--config", str(scheduler_file))
        return [each["metadata"]["name"] for each in yaml.safe_load_all(answer.stdout)]

    assert names() == ["corewise-owned-cpus"] * 2
    scheduler_file.write_text("interference: {profiles: {a: {profile: {memoryBandwidth: 5GB/s}}}}\n")
    assert names() == ["corewise-owned-cpus"] * 2 + ["corewise-interference"] * 2


def test_weight_is_explained_in_the_stanza_and_help() -> None:
    for text in (invoke("config").stdout, invoke("config", "--help").stdout):
        words = " ".join(text.replace("#", " ").split())
        assert "weight: an extender's score of 0 to 10 counts as 0 to 100 x weight" in words


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ([], "--listen is missing"),
        (["--listen", "nowhere"], "is not an address"),
        (["--listen", ":0", "--tls-cert", "x"], "go together"),
        (["--listen", ":0", "--webhook-url", "http://x"], "must begin with https://"),
        (["--listen", ":0", "--webhook-service", "x"], "is not a Service"),
        (["config", "--url", "corewise:443"], "must begin with https://"),
        (["config", "--weight", "3"], "--weight is for --pods owned,profiled and all"),
        (["config", "--pods", "all", "--weight", "0"], "0 is not in the range 1<=x<=100"),
        (["config", "--url", "http://corewise"], "the extender demands a client certificate"),
        (["config", "--url", "https://"], "'https://' is not https://HOST"),
        (["config", "--url", "https://:443"], "is not https://HOST"),
        (["config", "--url", "https://corewise:port"], "is not https://HOST"),
        (["config", "--url", "https://user@corewise?x=1"], "is not https://HOST"),
        (["config", "--cert-file", "x"], "go together"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments: list[str], wrong: str) -> None:
    answer = invoke(*arguments)
    assert answer.exit_code == ExitCode.USAGE
    assert wrong in answer.stderr


def test_without_a_certificate_nothing_is_served(api_server: LocalAPIServer, tmp_path: Path) -> None:
    api_server.write_kubeconfig(tmp_path / "config")
    answer = invoke("--kubeconfig", str(tmp_path / "config"), "--listen", "127.0.0.1:0")
    assert isinstance(answer.exception, Failure)
    assert "need a certificate" in str(answer.exception)


def test_the_configuration_file_is_read() -> None:
    read = parse_configuration("scoring: MostAllocated\nrememberedDecisions: 7\n")
    assert read == SchedulerConfiguration(Allocation.MOST, 7)
    assert parse_configuration("") == DEFAULTS == parse_configuration("{}")


@pytest.mark.parametrize(
    "text", ["scoring: Best", "scorign: LeastAllocated", "rememberedDecisions: -1", "[]", "a: [", "7"]
)
def test_a_configuration_file_that_is_wrong_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(SchedulerConfigurationError):
        parse_configuration(text)
    file = tmp_path / "config.yaml"
    file.write_text(text)
    answer = invoke("--listen", ":0", "--config", str(file))
    assert isinstance(answer.exception, Failure)
    assert answer.exception.exit_code == ExitCode.BAD_INPUT
    assert str(file) in str(answer.exception)


def test_missing_configuration_file_is_reported() -> None:
    answer = invoke("--listen", ":0", "--config", "/nowhere/config.yaml")
    assert isinstance(answer.exception, Failure)
    assert "cannot be read" in str(answer.exception)


def test_every_file_error_names_file_line_column_field(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("scoring: Best\ninterference:\n  points: [5, 10]\n  typelabel: app\n")
    answer = invoke("--listen", ":0", "--config", str(file))
    assert isinstance(answer.exception, Failure)
    places = [line.removeprefix(f"{file}: ") for line in str(answer.exception).splitlines()]
    assert places == [
        'line 1, column 10: scoring: "Best" is not a known value: write LeastAllocated or MostAllocated',
        "line 3, column 15: interference.points[1]: 10 is more than 5 before it: points must not increase",
        'line 4, column 3: interference.typelabel: unknown key: did you mean "typeLabel"?',
    ]


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ([], "--prometheus is missing: interference is configured"),
        (["--prometheus", "prometheus:9090"], "http://HOST:9090"),
    ],
)
def test_interference_needs_a_prometheus_that_can_be_asked(
    tmp_path: Path, arguments: list[str], wrong: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("interference: {}\n")
    answer = invoke("--listen", ":0", "--config", str(file), *arguments)
    assert answer.exit_code == ExitCode.USAGE
    assert wrong in " ".join(answer.stderr.split())
