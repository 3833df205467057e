"""The check of a configuration: every problem at its place in the file, and the CPU models with a ratio."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from corewise.config.colocation import parse_oversubscription, parse_resource_qos, parse_suppression
from corewise.config.colocation_profile import KIND, profiles_in
from corewise.config.configuration import node_config_conflicts, parse_amplification, parse_normalization
from corewise.config.decoding import Parsed, Problem, Severity, nearest_words
from corewise.config.eviction import parse_resource_threshold
from corewise.config.interference.reading import SCHEDULER_KEYS
from corewise.config.key_texts import Contents, KeyText
from corewise.config.node_configs import Configuration
from corewise.config.yaml_text import NotYAMLError, load_document
from corewise.normalization.models import ModelCoverage, model_coverage
from corewise.quantities import Ratio
from corewise.scheduler.configuration import read_configuration
from corewise.views.compared_nodes import ComparedNodes, coverage_record, model_problems
from corewise.vocabulary import names


@dataclass(frozen=True, slots=True)
class ConfigFinding:
    """One problem at its place in the file; ``key`` is empty for problems of the file itself."""

    key: str
    problem: Problem


@dataclass(frozen=True, slots=True)
class CheckedConfig:
    """The checked keys, the findings, and the coverage of the nodes' CPU models by ratios."""

    keys: tuple[str, ...]
    findings: tuple[ConfigFinding, ...]
    coverage: ModelCoverage | None

    @property
    def errors(self) -> int:
        return sum(each.problem.severity is Severity.ERROR for each in self.findings)


def check_contents(contents: Contents, nodes: ComparedNodes | None, largest: Ratio) -> CheckedConfig:
    """Check keys and profiles, and compare them with nodes if there are any."""
    compared = nodes.nodes if nodes else ()
    findings = [ConfigFinding("", problem) for problem in contents.problems]
    profiles = profiles_in(contents.text)
    findings += [ConfigFinding("", problem) for each in profiles for problem in each.problems]
    coverage = None
    for text in contents.keys:
        parsed = _parsed(text, largest)
        problems = list(parsed.problems)
        if parsed.value is not None:
            labels = [(each.name, each.labels) for each in compared]
            problems += node_config_conflicts(parsed.value, labels)
        if parsed.value is not None and text.key == names.NORMALIZATION_KEY and nodes and nodes.reports:
            coverage = model_coverage(compared, parsed.value)
            problems += model_problems(coverage)
        findings += [ConfigFinding(text.key, text.in_file(each, contents.positions)) for each in problems]
    if nodes:
        texts = {each.key: each.text for each in contents.keys}
        removed = frozenset() if contents.stated is None else nodes.applied - contents.stated
        warnings = [
            f"applying this file removes {key} from the cluster: the file applied before had it"
            for key in sorted(removed)
        ]
        warnings += nodes.raised_while_busy(texts, largest, removed)
        findings += [ConfigFinding("", Problem(Severity.WARNING, 1, 1, "", each)) for each in warnings]
    findings.sort(key=lambda each: (each.problem.line, each.problem.column))
    checked = [each.key for each in contents.keys]
    checked += [each.rest.name for each in profiles if each.rest] or [KIND] * bool(profiles)
    return CheckedConfig(tuple(checked), tuple(findings), coverage)


def check_scheduler_file(text: str) -> CheckedConfig | None:
    """Check the file of ``corewise scheduler --config``; None if the text is not one."""
    try:
        document = load_document(text)
    except NotYAMLError:
        return None
    if not isinstance(document, dict) or "kind" in document:
        return None
    keys = tuple(key for key in SCHEDULER_KEYS if key in document)
    if not keys and not any(nearest_words(str(key), SCHEDULER_KEYS, closeness=0.8) for key in document):
        return None
    findings = tuple(ConfigFinding("", each) for each in read_configuration(text).problems)
    return CheckedConfig(keys, findings, None)


def _parsed(text: KeyText, largest: Ratio) -> Parsed[Configuration[Any]]:
    parsers: Mapping[str, Callable[[str], Parsed[Configuration[Any]]]] = {
        names.NORMALIZATION_KEY: parse_normalization,
        names.AMPLIFICATION_KEY: partial(parse_amplification, largest=largest),
        names.OVERSUBSCRIPTION_KEY: parse_oversubscription,
        names.SUPPRESSION_KEY: parse_suppression,
        names.RESOURCE_QOS_KEY: parse_resource_qos,
        names.RESOURCE_THRESHOLD_KEY: parse_resource_threshold,
    }
    return parsers[text.key](text.text)


def check_record(name: str, checked: CheckedConfig) -> dict[str, Any]:
    """Return the checked keys and the findings, for programs; ``name`` is the file's."""
    document: dict[str, Any] = {
        "file": name,
        "keys": list(checked.keys),
        "errors": checked.errors,
        "warnings": len(checked.findings) - checked.errors,
        "problems": [_record(each) for each in checked.findings],
    }
    if checked.coverage is not None:
        document["cpuModels"] = coverage_record(checked.coverage)
    return document


def _record(finding: ConfigFinding) -> Mapping[str, Any]:
    problem = finding.problem
    return {
        "severity": problem.severity.value,
        "key": finding.key,
        "line": problem.line,
        "column": problem.column,
        "path": problem.path,
        "message": problem.message,
    }
