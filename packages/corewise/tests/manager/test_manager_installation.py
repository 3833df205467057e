"""What the webhook configurations say, and who else is installed."""

from __future__ import annotations

from corewise.kube.resources import ConfiguredWebhook, RuleWithOperations, WebhookConfiguration
from corewise.manager.webhooks import mutating_configuration, validating_configuration
from corewise.ratios.cluster import interfering_webhook
from corewise.service.installation import client_config, includes
from corewise.service.options import ServiceAddress


def test_configurations_request_only_what_the_webhooks_answer() -> None:
    config = client_config(ServiceAddress("ns", "svc"), "PEM")
    (status,) = mutating_configuration(config)["webhooks"]
    assert status["clientConfig"]["service"] == {
        "namespace": "ns",
        "name": "svc",
        "port": 443,
        "path": "/mutate-node-status",
    }
    assert status["rules"][0]["resources"] == ["nodes/status"]
    assert {each["failurePolicy"] for each in validating_configuration(config, "ns")["webhooks"]} == {
        "Ignore"
    }


def test_object_with_extra_members_includes_the_wanted_ones() -> None:
    assert includes({"a": [{"b": 1, "c": 2}], "d": 3}, {"a": [{"b": 1}]})
    assert not includes({"a": [{"b": 1}, {}]}, {"a": [{"b": 1}]})
    assert not includes({"a": "x"}, {"a": {"b": 1}})
    assert not includes({}, {"a": None})


def test_only_koordinators_node_status_webhook_conflicts() -> None:
    def configuration(name: str, resource: str, group: str = "") -> WebhookConfiguration:
        rule = RuleWithOperations(("UPDATE",), (group,), ("v1",), (resource,))
        return WebhookConfiguration(webhooks=(ConfiguredWebhook(name=name, rules=(rule,)),))

    assert interfering_webhook([configuration("mnode-status.koordinator.sh", "nodes/status")])
    assert interfering_webhook([configuration("all.koordinator.sh", "*/*", "*")])
    assert not interfering_webhook([configuration("mpod.koordinator.sh", "pods")])
    assert not interfering_webhook([configuration("node-status.corewise.io", "nodes/status")])
