"""The policy in a file, for commands: one to be applied, which must be good, or one that a cluster has."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from corewise.cli.errors import Failure
from corewise.cli.files import text_of
from corewise.config.configuration import (
    LARGEST_AMPLIFICATION_RATIO,
    parse_amplification,
    parse_normalization,
)
from corewise.config.decoding import Severity
from corewise.config.key_texts import UndecidedKeyError, read_contents
from corewise.kube.objects import ConfigMap
from corewise.quantities import Ratio
from corewise.ratios.cluster import ClusterConfiguration, read_configuration
from corewise.vocabulary.names import AMPLIFICATION_KEY, NORMALIZATION_KEY

_KEYS = NORMALIZATION_KEY, AMPLIFICATION_KEY


@dataclass(frozen=True, slots=True)
class AppliedPolicy:
    """The configuration that applies, and remarks on what has errors."""

    configuration: ClusterConfiguration
    remarks: tuple[str, ...] = ()


def read_policy(file: str, largest: Ratio) -> ClusterConfiguration:
    """Read a ConfigMap, or the JSON of one of its keys; ``-`` is stdin.

    ``largest``: the manager's largest amplification ratio.

    Raises:
        Failure: if the file cannot be read or has errors.
    """
    return configuration_of(_texts_of(file), file, largest)


def configuration_of(
    texts: Mapping[str, str], file: str, largest: Ratio = LARGEST_AMPLIFICATION_RATIO
) -> ClusterConfiguration:
    """Return the configuration that the ConfigMap's keys mean; what is absent configures nothing.

    Raises:
        Failure: if one of them has errors.
    """
    normalization = parse_normalization(texts.get(NORMALIZATION_KEY, "{}"))
    amplification = parse_amplification(texts.get(AMPLIFICATION_KEY, "{}"), largest)
    keyed = zip(_KEYS, (normalization.errors, amplification.errors), strict=True)
    errors = [f"{key}, {problem}" for key, problems in keyed for problem in problems]
    if errors or normalization.value is None or amplification.value is None:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        hint = f"see all errors with: {_check(file)}"
        raise Failure(f"{file}: {errors[0] if errors else 'it has errors'}{more}", hint=hint)
    return ClusterConfiguration(normalization.value, amplification.value)


def read_present_policy(file: str, largest: Ratio) -> AppliedPolicy:
    """Read the ConfigMap that a cluster has, as ``read_policy``, with what the manager applies of it.

    Raises:
        Failure: if the file cannot be read.
    """
    return applied_policy(_texts_of(file), file, largest)


def applied_policy(texts: Mapping[str, str], file: str, largest: Ratio) -> AppliedPolicy:
    """Return the configuration that the manager applies; an absent key configures nothing.

    ``file`` has the ConfigMap.
    """
    reading = read_configuration(ConfigMap(data=dict(texts)), largest=largest)
    instead = {
        key: reading.applied_instead(key) if key in reading.in_parts else "nodes keep the ratios they have"
        for key in _KEYS
        if reading.errors(key)
    }
    remarks = (
        f"{file}: {key} has errors: {what}. To see them: {_check(file)}" for key, what in instead.items()
    )
    return AppliedPolicy(reading.configuration, tuple(remarks))


def _check(file: str) -> str:
    return f"corewise config check {shlex.quote(file)}"


def _texts_of(file: str) -> Mapping[str, str]:
    try:
        contents = read_contents(text_of(file), None)
    except UndecidedKeyError:
        hint = "write it as a ConfigMap, with the key's name"
        raise Failure(f"{file} is the JSON of one key, but does not say which", hint=hint) from None
    texts = {each.key: each.text for each in contents.keys}
    if not texts or any(each.severity is Severity.ERROR for each in contents.problems):
        hint = f"see what is wrong with: {_check(file)}"
        raise Failure(f"{file} holds no configuration of corewise that can be used", hint=hint)
    return texts
