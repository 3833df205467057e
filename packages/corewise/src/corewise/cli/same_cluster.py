"""The cluster that a command was told to read, in the commands that it prints.

Views and reason codes name commands as they are for the kubeconfig's own context and the usual namespace of
the ConfigMap. Whoever calls with ``--kubeconfig``, ``--context`` or ``--config-namespace`` gets them with the
same options: messages, hints and explanations pass through :func:`for_same_cluster`, some of them twice.

A message quotes what a user wrote, such as the value of an annotation, and a command quotes a path with a
blank: a quoted text of up to 500 characters stays as it is, also over several lines.
"""

from __future__ import annotations

import re
import shlex

import click
from click.core import ParameterSource

_GIVEN = "corewise.options of the cluster"
_WORD = r"""(?:'[^']*'|"[^"]*"|[^\s'"])+"""
_COMMAND = re.compile(
    rf"""
    (?<!\w)(?P<quote>['"])(?s:.{{0,500}}?)(?P=quote)(?!\w)
    | (?<![\w/.-])(?<!\ -n\ )(?:
        kubectl(?=
            (?:\ -n\ {_WORD})?
            \ (?:annotate|apply|auth|cluster-info|delete|describe|drain|edit|get|label|logs|patch|scale|set)
            (?![\w/-])
        )
        | (?P<helm>helm)(?=\ uninstall\ )
        | (?:
            corewise\ (?P<view>nodes|top|uninstall|explain\ (?:node|pod|suppression|interference))
            | corewise\ config\ (?P<config>check|starter|suggest)(?:\ {_WORD})??\ --cluster
        )(?![\w/-]|\ --(?:kubeconfig|context|config-namespace)\b)
    )
    """,
    re.VERBOSE,
)
"""A command that can have the options; or a quoted text, which is not searched for commands."""
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
        if found["quote"]:
            return found[0]
        if found["helm"]:
            return found[0] + for_helm
        takes_namespace = (found["view"] or found["config"]) in _TAKE_NAMESPACE
        return found[0] + cluster + (namespace if takes_namespace else "")

    return _COMMAND.sub(named, text)
