"""The cluster that a command was told to read, in the commands that it prints.

Views and reason codes name commands as they are for the kubeconfig's own context and the usual namespace of
the ConfigMap. Whoever calls with ``--kubeconfig``, ``--context`` or ``--config-namespace`` gets them with the
same options: messages, hints and explanations pass through :func:`for_same_cluster`.
"""

from __future__ import annotations

import re
import shlex

import click
from click.core import ParameterSource

_GIVEN = "corewise.options of the cluster"
_NOT_YET = r"\b(?! --(?:kubeconfig|context|config-namespace))"
_KUBECTL = re.compile(
    r"\bkubectl(?= (?:-n|annotate|apply|auth|cluster-info|delete|describe|drain|edit|get|label|patch|scale|"
    r"set)\b)"
)
_HELM = re.compile(r"\bhelm(?= uninstall )")
_COREWISE = re.compile(
    rf"\bcorewise (nodes|top|uninstall|explain (?:node|pod|suppression|interference))"
    rf"{_NOT_YET}"
)
_CONFIG = re.compile(rf"\bcorewise config (check|starter|suggest)\b[^|;]*? --cluster{_NOT_YET}")
_TAKE_NAMESPACE = frozenset(
    {"nodes", "top", "uninstall", "explain node", "explain suppression", "check", "suggest"}
)


def remember(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Note an option that names the cluster, or the ConfigMap there, as the callback of the option."""
    name = parameter.name or ""
    if value is not None and context.get_parameter_source(name) is not ParameterSource.DEFAULT:
        context.meta.setdefault(_GIVEN, {})[name] = value
    return value


def for_same_cluster(text: str) -> str:
    """Return a text whose commands have the options of the present call that name the cluster."""
    context = click.get_current_context(silent=True)
    given = context.meta.get(_GIVEN, {}) if context else {}
    if not given:
        return text
    cluster, for_helm, namespace = (
        "".join(f" --{option} {shlex.quote(given[name])}" for name, option in options if name in given)
        for options in (
            (("kubeconfig", "kubeconfig"), ("context", "context")),
            (("kubeconfig", "kubeconfig"), ("context", "kube-context")),
            (("config_namespace", "config-namespace"),),
        )
    )

    def named(found: re.Match[str]) -> str:
        return found[0] + cluster + (namespace if found[1] in _TAKE_NAMESPACE else "")

    text = _KUBECTL.sub(lambda found: found[0] + cluster, text)
    text = _HELM.sub(lambda found: found[0] + for_helm, text)
    return _CONFIG.sub(named, _COREWISE.sub(named, text))
