"""The policy in a file, for commands that need all of it good: they fail with the first error."""

from __future__ import annotations

from collections.abc import Mapping

from corewise.cli.errors import Failure
from corewise.cli.files import text_of
from corewise.config.configuration import parse_amplification, parse_normalization
from corewise.config.decoding import Severity
from corewise.config.key_texts import UndecidedKeyError, read_contents
from corewise.ratios.cluster import ClusterConfiguration
from corewise.vocabulary.names import AMPLIFICATION_KEY, NORMALIZATION_KEY


def read_policy(file: str) -> ClusterConfiguration:
    """Read a ConfigMap, or the JSON of one of its keys; ``-`` is stdin.

    Raises:
        Failure: if the file cannot be read or has errors.
    """
    try:
        contents = read_contents(text_of(file), None)
    except UndecidedKeyError:
        hint = "write it as a ConfigMap, with the key's name"
        raise Failure(f"{file} is the JSON of one key, but does not say which", hint=hint) from None
    texts = {each.key: each.text for each in contents.keys}
    if not texts or any(each.severity is Severity.ERROR for each in contents.problems):
        hint = f"see what is wrong with: corewise config check {file}"
        raise Failure(f"{file} holds no configuration of corewise that can be used", hint=hint)
    return configuration_of(texts, file)


def configuration_of(texts: Mapping[str, str], source: str) -> ClusterConfiguration:
    """Return the configuration that the ConfigMap's keys mean; what is absent configures nothing.

    Raises:
        Failure: if one of them has errors.
    """
    normalization = parse_normalization(texts.get(NORMALIZATION_KEY) or "{}")
    amplification = parse_amplification(texts.get(AMPLIFICATION_KEY) or "{}")
    keyed = ((NORMALIZATION_KEY, normalization.errors), (AMPLIFICATION_KEY, amplification.errors))
    errors = [f"{key}, {problem}" for key, problems in keyed for problem in problems]
    if errors or normalization.value is None or amplification.value is None:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        hint = "see all errors with: corewise config check FILE"
        raise Failure(f"{source}: {errors[0] if errors else 'it has errors'}{more}", hint=hint)
    return ClusterConfiguration(normalization.value, amplification.value)
