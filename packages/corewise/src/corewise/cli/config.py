"""``corewise config``: look at configuration before the cluster does."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib.resources import files
from pathlib import Path

import click

from corewise.cli import output
from corewise.cli.choice import Choice
from corewise.cli.config_nodes import HOW_TO, node_options
from corewise.cli.config_suggest import command as suggest
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.files import TEXT_FILE, text_of
from corewise.cli.options import CONFIG_NAMESPACE_OPTION, examples, read
from corewise.cli.output import Form
from corewise.config.colocation_profile import KIND, profiles_in
from corewise.config.configuration import (
    LARGEST_AMPLIFICATION_RATIO,
    ModelRatios,
)
from corewise.config.facts import CPUFacts
from corewise.config.interference.reading import SCHEDULER_KEYS
from corewise.config.key_texts import KEYS, Contents, UndecidedKeyError, read_contents
from corewise.normalization.calibration import ratio_model_json
from corewise.normalization.starter import (
    STARTER_FIELD,
    PublishedScore,
    StarterCPUs,
    published_scores,
    starter_cpus,
    starter_ratios,
)
from corewise.quantities import Ratio
from corewise.views.compared_nodes import COVERAGE_COLUMNS, ComparedNodes, remarks
from corewise.views.config_check import CheckedConfig, check_contents, check_record, check_scheduler_file
from corewise.views.foreign_names import FoundNames, lines, names_record
from corewise.views.foreign_names import remarks as foreign_remarks
from corewise.views.text import count, some
from corewise.vocabulary import names


@click.group(
    epilog=examples(
        "corewise config starter > slo-controller-config.yaml",
        "corewise config check slo-controller-config.yaml --cluster",
    )
)
def command() -> None:
    """Check configuration before the cluster uses it; print one to start with."""


@command.command(
    epilog=examples(
        "corewise config check --cluster",
        "corewise config check slo-controller-config.yaml --cluster",
        "kubectl get nodes,noderesourcetopologies -o json > dump.json",
        "corewise config check slo-controller-config.yaml --nodes dump.json",
    )
)
@click.argument("file", type=TEXT_FILE, required=False)
@click.option(
    "--key",
    type=Choice(KEYS),
    metavar="KEY",
    help=f"The only key to check, or the key if FILE is its text: {', '.join(KEYS)}.",
)
@node_options(names=True)
@CONFIG_NAMESPACE_OPTION
@click.option(
    "--largest-amplification",
    metavar="RATIO",
    callback=read(Ratio.parse),
    show_default=f"the manager's own where --cluster or DUMP has it, else {LARGEST_AMPLIFICATION_RATIO}",
    help="The manager's largest amplification ratio.",
)
@output.option((Form.TABLE, Form.JSON))
def check(
    file: str | None,
    key: str | None,
    nodes: ComparedNodes | None,
    largest_amplification: Ratio | None,
    form: Form,
) -> None:
    """Check a configuration and name every error with its place.

    FILE is a ConfigMap or a ClusterColocationProfile in YAML or JSON (several documents or a List will do),
    the text of one key of the ConfigMap, or the file of corewise scheduler --config; - is stdin. Unknown keys
    are warnings, in a profile and in the scheduler's file errors.

    With nodes (--nodes or --cluster), two nodeConfigs entries that select one node are errors, and each CPU
    model in use is listed with its ratio. A model that ratioModel does not name is a warning. Models are
    checked before "enable" is true, too.

    A higher cpu ratio on a node that uses more than 60 % of its CPU is a warning, as at admission. It needs
    metrics.k8s.io, or in a dump NodeMetrics: kubectl get nodes,noderesourcetopologies,nodes.metrics.k8s.io
    -o json. (Add mutatingwebhookconfigurations, and ratios count up to the manager's own largest.) Keys that
    FILE does not have stay as the cluster has them. But kubectl apply removes those that it wrote there
    before: each of them is a warning.

    With --cluster, the command also lists each label, annotation and ConfigMap key of Koordinator and
    Volcano that the cluster's objects have and corewise does not honor, and what corewise does instead.
    Without FILE it lists only these names. It reads nodes, noderesourcetopologies, pods, pod templates of
    workloads, namespaces, priorityclasses, clustercolocationprofiles and configmaps. The account must be able
    to list nodes; other kinds that it may not list are reported as not checked.

    Exit codes: 0 no errors, 1 errors, 2 wrong call, 3 no answer from the cluster, 5 a file cannot be read or
    holds no configuration.
    """
    found = nodes.names if nodes else None
    if file is None:
        if found is None:
            raise click.UsageError("Missing argument 'FILE': it can be left out only with --cluster.")
        _print_names(found, form)
        return
    text = text_of(file)
    checked = None if key else check_scheduler_file(text)
    largest = largest_amplification or (nodes.largest if nodes else LARGEST_AMPLIFICATION_RATIO)
    checked = checked or check_contents(_contents(file, text, key), nodes, largest)
    _print(file, checked, form, found)
    if nodes and not nodes.reports and names.NORMALIZATION_KEY in checked.keys:
        output.say(f"CPU models are not checked: no NodeResourceTopology came with the nodes ({HOW_TO})")
    if checked.errors:
        raise click.exceptions.Exit(ExitCode.VERDICT)


@command.command(
    short_help="Print a ConfigMap with ratios to start with.",
    epilog=examples(
        "corewise config starter > slo-controller-config.yaml",
        "corewise config starter --cluster | corewise config check - --cluster",
    ),
)
@node_options()
@CONFIG_NAMESPACE_OPTION
def starter(nodes: ComparedNodes | None) -> None:
    """Print a ConfigMap with ratios from published benchmark results, to start with.

    The ratios are those of SPECrate2017_int_base per CPU, with hyper-threading and turbo on; each row names
    its source. They are a starting point: measure your machines with corewise calibrate, then set "enable" to
    true. With nodes (--nodes or --cluster), only the models that they have, the slowest of them 1.00; a model
    without a result, or with other settings, is named and gets no ratio. A single result of several models
    gives no ratio at all, since there is nothing to compare it with.

    Exit codes: 0 printed, 2 wrong call, 3 no answer from the cluster, 4 the nodes have none of the models,
    5 a file cannot be read.
    """
    scores = published_scores(files("corewise.config").joinpath("starter-ratios.yaml").read_text("utf-8"))
    cpus = StarterCPUs(scores, (), ()) if nodes is None else starter_cpus(scores, nodes.nodes)
    unpublished = tuple(dict.fromkeys(_starter_name(each, scores) for each in cpus.unpublished))
    if not cpus.published:
        known = f": {', '.join(unpublished)}" if unpublished else f"; they report none ({HOW_TO})"
        raise Failure(
            f"there is no published ratio for the CPU models of these nodes{known}",
            hint="measure them: corewise calibrate",
            exit_code=ExitCode.NOT_FOUND,
        )
    for name in unpublished:
        output.say(f"no published ratio for {name}: measure it with corewise calibrate")
    if cpus.without_facts:
        nameless = count(len(cpus.without_facts), "node")
        output.say(f"no CPU facts of {nameless}: {some(cpus.without_facts)}")
    ratios = starter_ratios(cpus.published) if cpus.is_comparable else {}
    _print_starter(cpus, ratios, unpublished)
    if not cpus.is_comparable:
        output.say(
            f"no ratio for {cpus.published[0].model} either: there is no second result to compare with"
        )
    start = "A starting point: measure with corewise calibrate, correct the ratios"
    if not ratios:
        start = "No ratios to start with: measure with corewise calibrate, write them into ratioModel"
    output.say(f'{start}, then set "enable" to true.')


def _starter_name(cpu: CPUFacts, scores: Collection[PublishedScore]) -> str:
    """Return the model, and which settings differ from those of its published result, if it has one."""
    settings = (("hyper-threading", cpu.hyper_threading), ("turbo", cpu.turbo))
    others = " and ".join(f"{name} off" for name, on in settings if not on)
    return f"{cpu.model} with {others}" if any(each.model == cpu.model for each in scores) else cpu.model


def _print_starter(
    cpus: StarterCPUs, ratios: Mapping[str, ModelRatios], unpublished: Collection[str]
) -> None:
    click.echo(_STARTER_HEAD if ratios else _NO_RATIOS_HEAD, nl=False)
    for row in sorted(cpus.published, key=lambda each: (each.of_one_cpu, each.model)):
        ratio = f"{ratios[row.model][STARTER_FIELD]}  " if ratios else ""
        median = f"{row.score} / {row.cpus}, median of {row.of}"
        click.echo(f"#   {ratio}{row.model}: {median}, {row.published}\n#         {row.url}")
    if unpublished:
        more = ". If one of these is slower than the CPU at 1.00, all ratios change" if ratios else ""
        click.echo(f"# No published result{more}:")
    for name in unpublished:
        click.echo(f"#   {name}")
    output.print_manifests(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": names.CONFIG_NAME, "namespace": _config_namespace()},
            "data": {
                names.NORMALIZATION_KEY: '{\n  "enable": false,\n'
                f'  "ratioModel": {ratio_model_json(ratios)}\n}}\n'
            },
        }
    )


def _config_namespace() -> str:
    return str(click.get_current_context().params["config_namespace"])


_STARTER_HEAD = """\
# A starting point, to be calibrated: measure your machines with corewise calibrate.
# Ratios of SPECrate2017_int_base (https://www.spec.org/cpu2017/results/) per CPU, a hardware thread, of
# machines with hyper-threading on and, it is assumed, turbo; the slowest is 1.00. Derived from SPEC's
# results, not results of SPEC. Newer CPUs were measured with newer compilers, which favors them.
# ratio, model: result of the machine / its CPUs, when it was published, and where
"""
_NO_RATIOS_HEAD = """\
# No ratios to start with: measure your machines with corewise calibrate. A ratio compares two CPUs, and only
# one CPU of these nodes has results of SPECrate2017_int_base (https://www.spec.org/cpu2017/results/).
# model: result of the machine / its CPUs, when it was published, and where
"""


def _contents(file: str, text: str, key: str | None) -> Contents:
    try:
        contents = read_contents(text, key, _config_namespace())
    except UndecidedKeyError:
        raise Failure(
            f"{file} is the JSON of one key, but does not say which",
            hint="name it: " + " or ".join(f"--key {each}" for each in KEYS),
            exit_code=ExitCode.USAGE,
        ) from None
    if not contents.keys and not contents.problems and not profiles_in(contents.text):
        keys = " or ".join(KEYS if key is None else (key,))
        raise Failure(
            f"{file} holds no configuration of corewise",
            hint=f"a ConfigMap has it in data, under {keys}; a {KIND} has it in spec; "
            f"and the file of corewise scheduler --config, in {' or '.join(SCHEDULER_KEYS)}",
        )
    return contents


def _print_names(names: FoundNames, form: Form) -> None:
    if form is Form.JSON:
        click.echo(output.document_text({"foreignNames": names_record(names)}, form), nl=False)
        return
    for line in lines(names):
        output.tell(line)
    for remark in foreign_remarks(names):
        output.say(remark)


def _print(file: str, checked: CheckedConfig, form: Form, foreign: FoundNames | None) -> None:
    name = "<stdin>" if file == "-" else file
    if form is Form.JSON:
        named = {} if foreign is None else {"foreignNames": names_record(foreign)}
        click.echo(output.document_text({**check_record(name, checked), **named}, form), nl=False)
        return
    findings, coverage = checked.findings, checked.coverage
    for finding in findings:
        problem = finding.problem
        path = f"{problem.path}: " if problem.path else ""
        where = f"{name}:{problem.line}:{problem.column}"
        output.tell(f"{where}: {problem.severity}: {path}{problem.message}")
    if coverage is not None and coverage.models:
        click.echo(output.table(COVERAGE_COLUMNS, coverage.models), nl=False)
    warnings = len(findings) - checked.errors
    found = f"{count(checked.errors, 'error')}, {count(warnings, 'warning')}"
    keys = ", ".join(checked.keys) or "no key"
    output.say(f"{Path(name).name}: {keys}: {found if findings else 'no problems'}")
    for line in () if coverage is None else remarks(coverage):
        output.say(line)
    if foreign is not None and (foreign.found or foreign.unread):
        _print_names(foreign, form)


command.add_command(suggest, "suggest")
