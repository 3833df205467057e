"""The rule of amplification as a MutatingAdmissionPolicy: stated in CEL, evaluated inside the API server.

It needs no process of corewise: nodes stay amplified, and kubelet may restart, while every one of them is
away. The rule is the table of :mod:`status`, and is stated in its words: one template for each step, filled
in for each of the four amounts. A test puts random histories to both and finds no difference.

    decode   annotations -> ratioCpu, ownedMilli, ...; amounts -> newCapacityCpu, oldCapacityCpu, ...
    decide   rawCapacityCpu, finalCapacityCpu, isRecordedCapacityCpu, ...
    encode   one JSON patch of status and annotations

Amounts are whole milli-CPU and bytes. :data:`ABSENT` stands for None, :data:`UNDECIDED` for a raw amount that
cannot be told. CEL has no functions of one's own and no local names: ``[x].map(t, f(t))[0]`` names a value.

Cost. The API server stops an expression at 1,000,000 units and a policy at 10,000,000. The dearest step is a
regular expression on a text of at most ``LONGEST`` characters; a longer text is unreadable, unseen.

failurePolicy is Fail. No expression fails on what the API server stores. If one did, a refused write would
leave the amplified amounts as they are, whereas Ignore would let kubelet's raw amounts through, and a
kubelet that starts then fails running pods.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from corewise.amplification.amounts import AMPLIFIABLE, CPU, FIELDS, MEMORY, UNCOUNTED
from corewise.amplification.annotations import (
    AMOUNT,
    CELLS,
    FLAT_OBJECT,
    INTEGER,
    LONGEST,
    NUMBER,
    RAW_ANNOTATIONS,
    SCALAR,
    SPACE,
    UNITS,
    Cell,
)
from corewise.amplification.status import CONCERNED, LIMIT, TIME
from corewise.quantities import MILLI, Ratio
from corewise.vocabulary import names

NAME: Final = "corewise-node-amplification"
"""Of the policy and of its binding."""

STATIC_SUFFIX: Final = ".static.k8s.io"
"""The end of the names of policies that an API server reads from files, and that no others may have."""

ASKED: Final = "file"
"""The value of the probe annotation that the policy in a file answers with its fingerprint."""

ABSENT: Final = -1
UNDECIDED: Final = -2

_COUNT: Final = {CPU: "int(quantity(t).asApproximateFloat() * 1000.0 + 0.5)"}
_COUNT[MEMORY] = "int(quantity(t).asApproximateFloat() + 0.5)"
_UNCOUNTED: Final = {CPU: f"{UNCOUNTED[CPU] // MILLI}", MEMORY: f"{UNCOUNTED[MEMORY]}"}


def amplification_policy(
    *, maximum: Ratio, kubelet_users: Iterable[str] = ("system:node:",), quiet_heartbeats: bool = True
) -> list[dict[str, Any]]:
    """Return the MutatingAdmissionPolicy of nodes/status, and its binding.

    Args:
        maximum: the largest ratio that counts.
        kubelet_users: names of kubelets' users, whole or without the node's name at the end.
        quiet_heartbeats: keep a write of nothing but fresh heartbeat times from being stored.
    """
    variables = _decoded(maximum, kubelet_users)
    for cell in CELLS:
        variables |= _decided(cell)
    variables |= _encoded()
    patch = _patch(quiet_heartbeats=quiet_heartbeats)
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes/status"]}
    concerned = (
        "has(object.metadata.annotations) &&\n"
        f"[{', '.join(map(_text, CONCERNED))}].exists(name, name in object.metadata.annotations)"
    )
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "amplified-or-to-be-amplified", "expression": concerned}],
        "variables": [{"name": name, "expression": text} for name, text in variables.items()],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
    }
    return _bound(NAME, spec)


def static_policy(policy: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a policy and its binding as a file for API servers, with a second policy that answers a probe.

    The API shows nothing of a policy in a file. So in a dry run whose probe annotation is :data:`ASKED`, the
    second policy replaces that value with the :func:`fingerprint` of the first.
    """
    probe = _annotation(names.AMPLIFICATION_PROBE).replace(
        "variables.annotations", "object.metadata.annotations"
    )
    asked = f"request.dryRun && has(object.metadata.annotations) &&\n{probe} == '{ASKED}'"
    answer = {
        **{
            key: policy[0]["spec"][key] for key in ("failurePolicy", "reinvocationPolicy", "matchConstraints")
        },
        "matchConditions": [{"name": "asked", "expression": asked}],
        "mutations": [
            {
                "patchType": "JSONPatch",
                "jsonPatch": {
                    "expression": f"[{_write(names.AMPLIFICATION_PROBE, _text(fingerprint(policy)))}]"
                },
            }
        ],
    }
    return [
        *_bound(f"{NAME}{STATIC_SUFFIX}", policy[0]["spec"]),
        *_bound(f"{NAME}-probe{STATIC_SUFFIX}", answer),
    ]


def fingerprint(policy: Sequence[Mapping[str, Any]]) -> str:
    """Return a text that two policies share only if they do the same: a digest of the spec."""
    text = json.dumps(policy[0]["spec"], sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:_DIGITS]


_DIGITS: Final = 16
_GROUP: Final = "admissionregistration.k8s.io"


def _bound(name: str, spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a policy, and a binding of the same name."""
    kinds = {"MutatingAdmissionPolicy": spec, "MutatingAdmissionPolicyBinding": {"policyName": name}}
    return [
        {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": each}
        for kind, each in kinds.items()
    ]


def _text(text: str) -> str:
    return f"'{text}'"


def _pattern(pattern: str) -> str:
    return f"r'^{pattern}$'"


def _key(cell: Cell) -> str:
    return "".join(part.capitalize() for part in cell)


def _annotation(name: str) -> str:
    return f"variables.annotations[?'{name}'].orValue('')"


def _written(document: str, cell: Cell) -> str:
    """Return CEL for an amount of a document as it is written; empty if it is absent."""
    field, resource = cell
    return f"string({document}.status.?{field}[?'{resource}'].orValue(''))"


def _entry(name: str, value: str) -> str:
    """Return the pattern of an entry in a flat JSON object."""
    return f'"{name}"{SPACE}:{SPACE}{value}'


def _counted(resource: str, text: str) -> str:
    """Return CEL that counts a quantity: ABSENT if it is not one, or more than any machine has."""
    return (
        f"[{text}].map(t,\n"
        f"t.matches({_pattern(AMOUNT)}) && quantity(t).isLessThan(quantity('{_UNCOUNTED[resource]}')) ?\n"
        f"{_COUNT[resource]} : {ABSENT})[0]"
    )


def _decoded(maximum: Ratio, kubelet_users: Iterable[str]) -> dict[str, str]:
    """Return the variables that read the write and the annotations as a whole."""
    users = ", ".join(map(_text, kubelet_users))
    ratio, flat = _annotation(names.AMPLIFICATION_RATIO), _pattern(FLAT_OBJECT)
    variables = {
        "annotations": "has(object.metadata.annotations) ? object.metadata.annotations : {}",
        "byKubelet": (
            f"[{users}].exists(user, request.userInfo.username == user ||\n"
            "request.userInfo.username == user + object.metadata.name)"
        ),
        "generation": _annotation(names.RECORD_GENERATION),
        "oldGeneration": f"oldObject.metadata.?annotations[?'{names.RECORD_GENERATION}'].orValue('')",
        "isWrittenNow": "variables.generation != variables.oldGeneration",
        "amplifiesCapacity": f"{_annotation(names.AMPLIFY_CAPACITY)} != 'false'",
        "ownedMilli": (
            f"[{_annotation(names.OWNED_MILLI_CPU)}].map(t, t.matches({_pattern(INTEGER)}) ? int(t) : 0)[0]"
        ),
        "ownedRequests": (
            f"[{_annotation(names.OWNED_REQUESTS)}].map(t,\n"
            f"t.matches({_pattern(INTEGER)}) ? int(t) : variables.ownedMilli)[0]"
        ),
        "isRatioThere": f"'{names.AMPLIFICATION_RATIO}' in variables.annotations",
        "isRatioReadable": (
            f"!variables.isRatioThere || [{ratio}].exists(t, size(t) <= {LONGEST} && t.matches({flat}))"
        ),
    }
    for resource in AMPLIFIABLE:
        key = resource.capitalize()
        hundredths = "int(double(t.find(r'[0-9]+([.][0-9]{1,2})?')) * 100.0 + 0.5)"
        variables[f"ratioEntry{key}"] = (
            f"variables.isRatioReadable && variables.isRatioThere ?\n"
            f"{ratio}.find(r'{_entry(resource, SCALAR)}') : ''"
        )
        variables[f"ratio{key}"] = (
            f"!variables.isRatioReadable ? {ABSENT} :\nvariables.ratioEntry{key} == '' ? 100 :\n"
            f"!variables.ratioEntry{key}.matches({_pattern(_entry(resource, f'({NUMBER})'))}) ? {ABSENT} :\n"
            f"[variables.ratioEntry{key}].map(t, {hundredths}).map(h,\n"
            f"h >= 100 && h <= {maximum.hundredths} ? h : {ABSENT})[0]"
        )
    for field, name in RAW_ANNOTATIONS.items():
        variables[f"isNamed{field.capitalize()}"] = f"'{name}' in variables.annotations"
        variables[f"isNamesReadable{field.capitalize()}"] = (
            f"[{_annotation(name)}].exists(t, size(t) <= {LONGEST} && t.matches({flat}))"
        )
    return variables


def _decided(cell: Cell) -> dict[str, str]:
    """Return the variables that read and decide one amount: :func:`status.decide_amount`."""
    (field, resource), key = cell, _key(cell)
    notes = (names.recorded_raw(*cell), names.recorded_applied(*cell))
    names_of_field, folds = _annotation(RAW_ANNOTATIONS[field]), cell == ("allocatable", CPU)
    largest = UNCOUNTED[resource] - 1

    def own(text: str) -> str:
        """Fill in a template: ``$`` is this amount, ``@`` its field, ``#`` its resource."""
        return text.replace("$", key).replace("@", field.capitalize()).replace("#", resource.capitalize())

    return {
        f"new{key}": _counted(resource, _written("object", cell)),
        f"old{key}": _counted(resource, _written("oldObject", cell)),
        f"recordedRaw{key}": _counted(resource, _annotation(notes[0])),
        f"recordedApplied{key}": _counted(resource, _annotation(notes[1])),
        f"hasNotes{key}": " || ".join(f"'{note}' in variables.annotations" for note in notes),
        f"isRecordThere{key}": own(
            "variables.recordedRaw$ >= 0 && variables.recordedApplied$ >= 0"
            + ("" if folds else " &&\nvariables.recordedApplied$ >= variables.recordedRaw$")
        ),
        f"isRecordBroken{key}": own("variables.hasNotes$ && !variables.isRecordThere$"),
        f"nameEntry{key}": (
            own("variables.isNamed@ && variables.isNamesReadable@ ?\n")
            + f"{names_of_field}.find(r'{_entry(resource, SCALAR)}') : ''"
        ),
        f"named{key}": (
            f"variables.nameEntry{key}.matches({_pattern(_entry(resource, f'({_QUOTED}|{AMOUNT})'))}) ?\n"
            + _counted(resource, f"variables.nameEntry{key}.find(r'{AMOUNT}')")
            + f" : {ABSENT}"
        ),
        f"isNamedBadly{key}": own(
            "variables.isNamed@ && (!variables.isNamesReadable@ ||\n"
            "(variables.nameEntry$ != '' && variables.named$ < 0))"
        ),
        f"isKnown{key}": own("variables.hasNotes$ || variables.named$ >= 0 || variables.isNamedBadly$"),
        f"factor{key}": own(
            "variables.ratio#"
            if field == "allocatable"
            else "variables.amplifiesCapacity ? variables.ratio# : 100"
        ),
        f"isStatedAnew{key}": own("variables.byKubelet && variables.new$ != variables.old$"),
        f"isAsRecorded{key}": own(
            "variables.isRecordThere$ && variables.new$ == variables.recordedApplied$ &&\n"
            "(variables.isWrittenNow || !variables.isStatedAnew$)"
        ),
        f"raw{key}": own(
            f"variables.factor$ < 0 && variables.isKnown$ ? {UNDECIDED} :\n"
            "variables.isAsRecorded$ ? variables.recordedRaw$ :\n"
            "variables.isStatedAnew$ || (variables.isRecordThere$ && variables.byKubelet) ?\n"
            "variables.new$ :\n"
            "variables.isRecordThere$ && variables.old$ == variables.recordedApplied$ ?\n"
            "variables.recordedRaw$ :\n"
            "variables.isRecordThere$ || (variables.factor$ > 100 && (variables.isRecordBroken$ ||\n"
            f"(variables.new$ == variables.old$ && variables.isNamedBadly$))) ? {UNDECIDED} :\n"
            "variables.new$ == variables.old$ && variables.named$ >= 0 ? variables.named$ : variables.new$"
        ),
        f"isUndecided{key}": own(f"variables.raw$ == {UNDECIDED}"),
        f"isRecorded{key}": own("variables.raw$ >= 0 && variables.factor$ > 100"),
        f"amplified{key}": own(
            f"!variables.isRecorded$ ? {ABSENT} :\n"
            "[variables.raw$ / 100 * variables.factor$ + variables.raw$ % 100 * variables.factor$ / 100]"
            f".map(x,\nx < {largest} ? x : {largest})[0]"
        ),
        f"offered{key}": own(_FOLDED if folds else "variables.amplified$"),
        f"isAsked{key}": own("false" if field == "capacity" else _ASKED.format(largest=largest)),
        f"final{key}": own(
            "variables.isUndecided$ ? variables.old$ :\n!variables.isRecorded$ ? variables.raw$ :\n"
            "variables.offered$ + (variables.isAsked$ ? 1 : 0)"
        ),
    }


_QUOTED: Final = f'"{AMOUNT}"'
_FOLDED: Final = (
    "[(variables.ownedMilli * variables.factor$ + 99) / 100 - variables.ownedRequests].map(f,\n"
    "variables.amplified$ - (f > 0 ? f : 0)).map(x,\nx > 0 ? x : 0)[0]"
)
_ASKED: Final = (
    "variables.isAsRecorded$ && variables.offered$ < {largest} &&\n"
    "(variables.recordedApplied$ == variables.offered$ + 1 ||\n"
    "(variables.byKubelet && !variables.isWrittenNow &&\nvariables.newCapacity# >= 0 &&\n"
    "variables.newCapacity# != variables.oldCapacity# &&\n"
    "!(variables.isRecordThereCapacity# && variables.newCapacity# == variables.recordedRawCapacity#)))"
)


def _printed(resource: str, count: str) -> str:
    """Return CEL that prints a count as :func:`annotations.print_count` does."""
    if resource == CPU:
        return f"{count} % 1000 == 0 ? string({count} / 1000) : string({count}) + 'm'"
    steps = [
        f"{count} >= {unit} && {count} % {unit} == 0 ? string({count} / {unit}) + '{suffix}'"
        for suffix, unit in UNITS.items()
    ]
    return " :\n".join([*steps, f"string({count})"])


def _encoded() -> dict[str, str]:
    """Return the variables to write, for each amount and as a whole: :func:`status._annotations`."""
    variables: dict[str, str] = {}
    for cell in CELLS:
        key = _key(cell)
        for what in ("raw", "final"):
            variables[f"{what}Text{key}"] = _printed(cell[1], f"variables.{what}{key}")
        variables[f"isNoteChanged{key}"] = (
            f"variables.isRecorded{key} ? !variables.isRecordThere{key} ||\n"
            f"variables.raw{key} != variables.recordedRaw{key} ||\n"
            f"variables.final{key} != variables.recordedApplied{key} :\n"
            f"!variables.isUndecided{key} && variables.hasNotes{key}"
        )
        variables[f"isEntryKept{key}"] = (
            f"variables.isUndecided{key} && variables.isNamedBadly{key} && variables.nameEntry{key} != ''"
        )
        variables[f"nameWanted{key}"] = (
            f"variables.isUndecided{key} ? variables.named{key} :\n"
            f"variables.isRecorded{key} ? variables.raw{key} : {ABSENT}"
        )
    variables["isAsStored"] = _all("variables.final$ == variables.old$")
    variables["isRecordChanged"] = " ||\n".join(f"variables.isNoteChanged{_key(cell)}" for cell in CELLS)
    for field in FIELDS:
        cells = [(field, resource) for resource in AMPLIFIABLE]
        own = field.capitalize()
        unreadable = f"variables.isNamed{own} && !variables.isNamesReadable{own}"
        kept = _any("variables.isUndecided$", cells)
        same = _all(
            "(variables.isEntryKept$ ||\n"
            "(variables.named$ == variables.nameWanted$ && !variables.isNamedBadly$))",
            cells,
        )
        wanted = _any("variables.nameWanted$ >= 0 || variables.isEntryKept$", cells)
        variables[f"isNamesChanged{own}"] = (
            f"!({unreadable} && ({kept})) &&\n!(({wanted}) &&\n{same}) &&\n"
            f"({wanted} || variables.isNamed{own})"
        )
        entries = ", ".join(
            f"variables.isEntryKept{_key(cell)} ? variables.nameEntry{_key(cell)} :\n"
            f"variables.nameWanted{_key(cell)} < 0 ? '' :\n"
            f"'\"{cell[1]}\":\"' + ({_printed(cell[1], f'variables.nameWanted{_key(cell)}')}) + '\"'"
            for cell in cells
        )
        variables[f"names{own}"] = f"[{entries}].filter(entry, entry != '').join(',')"
    return variables


def _all(template: str, cells: Iterable[Cell] = CELLS) -> str:
    return " &&\n".join(template.replace("$", _key(cell)) for cell in cells)


def _any(template: str, cells: Iterable[Cell] = CELLS) -> str:
    return " ||\n".join(f"({template.replace('$', _key(cell))})" for cell in cells)


def _patch(*, quiet_heartbeats: bool) -> str:
    """Return the expression of the JSON patch."""
    parts = [_add_missing_field(field) for field in FIELDS]
    parts += [_amount(cell) for cell in CELLS]
    parts += [_notes(cell) for cell in CELLS]
    parts += [
        _when(
            "!variables.isWrittenNow && (variables.isRecordChanged || !variables.isAsStored)",
            _write(
                names.RECORD_GENERATION,
                f"variables.generation.matches({_pattern(INTEGER)}) ?\n"
                "string(int(variables.generation) + 1) : '1'",
            ),
        )
    ]
    for field, name in RAW_ANNOTATIONS.items():
        own = field.capitalize()
        text = f"'{{' + variables.names{own} + '}}'"
        parts.append(
            f"(!variables.isNamesChanged{own} ? [] :\nvariables.names{own} == '' ? [{_remove(name)}] :\n"
            f"[{_write(name, text)}])"
        )
    parts.append(_when(f"'{names.AMPLIFIED}' in variables.annotations", _remove(names.AMPLIFIED)))
    if quiet_heartbeats:
        restore = 'JSONPatch{op: "replace", path: "/status/conditions", value: oldObject.status.conditions}'
        parts.append(_when(_is_quiet(), restore))
    return " +\n".join(parts)


def _when(condition: str, *operations: str) -> str:
    return f"({condition} ?\n[{', '.join(operations)}] : [])"


def _write(name: str, value: str) -> str:
    path = f'"/metadata/annotations/" + jsonpatch.escapeKey("{name}")'
    return f'JSONPatch{{op: "add", path: {path},\nvalue: {value}}}'


def _remove(name: str) -> str:
    return f'JSONPatch{{op: "remove", path: "/metadata/annotations/" + jsonpatch.escapeKey("{name}")}}'


def _add_missing_field(field: str) -> str:
    added = _any("variables.final$ >= 0", [(f, r) for f, r in CELLS if f == field])
    return _when(
        f"!has(object.status.{field}) && ({added})",
        f'JSONPatch{{op: "add", path: "/status/{field}", value: {{}}}}',
    )


def _amount(cell: Cell) -> str:
    """Return the operation that makes one amount the final one: the stored text where that is the amount."""
    (field, resource), key = cell, _key(cell)
    path = f"/status/{field}/{resource}"
    old = f"oldObject.status.?{field}[?'{resource}']"
    return (
        f"(variables.final{key} == variables.new{key} ? [] :\n"
        f"variables.final{key} == variables.old{key} && {old}.hasValue() ?\n"
        f'[JSONPatch{{op: "add", path: "{path}", value: {old}.value()}}] :\n'
        f'variables.final{key} < 0 ? [JSONPatch{{op: "remove", path: "{path}"}}] :\n'
        f'[JSONPatch{{op: "add", path: "{path}", value: variables.finalText{key}}}])'
    )


def _notes(cell: Cell) -> str:
    key, notes = _key(cell), {"raw": names.recorded_raw(*cell), "final": names.recorded_applied(*cell)}
    writes = ", ".join(_write(note, f"variables.{what}Text{key}") for what, note in notes.items())
    removals = " +\n".join(
        _when(f"'{note}' in variables.annotations", _remove(note)) for note in notes.values()
    )
    return f"(!variables.isNoteChanged{key} ? [] :\nvariables.isRecorded{key} ? [{writes}] :\n{removals})"


def _is_quiet() -> str:
    """Return whether the write refreshes heartbeat times and nothing else: see :mod:`status`."""
    same = "{0}.all(k, {1} || (k in {2} && {0}[k] == {2}[k])) &&\n{2}.all(k, {1} || k in {0})"
    of_object = same.format("object", "k in ['metadata', 'status']", "oldObject")
    of_metadata = same.format("object.metadata", "k == 'managedFields'", "oldObject.metadata")
    of_status = same.format(
        "object.status", "k in ['conditions', 'capacity', 'allocatable']", "oldObject.status"
    )
    of_amounts = " &&\n".join(
        same.format(f"object.status.{field}", "k in ['cpu', 'memory']", f"oldObject.status.{field}")
        for field in FIELDS
    )
    written, stored = "object.status.conditions", "oldObject.status.conditions"
    pairs = (
        f"{written}.map(c, c.type) == {stored}.map(c, c.type) &&\n"
        f"{written}.all(c, {stored}.exists_one(o, o.type == c.type) &&\n"
        f"{stored}.exists(o, o.type == c.type &&\n" + same.format("c", "k == 'lastHeartbeatTime'", "o") + "))"
    )
    time = "{0}.?lastHeartbeatTime.orValue('')"
    fresh = (
        f"{written}.filter(c, !{stored}.exists(o, o.type == c.type &&\n"
        f"{time.format('o')} == {time.format('c')}))"
    )
    old = f"{stored}.filter(o, fresh.exists(c, c.type == o.type))"
    times = (
        f"[{fresh}].exists(fresh, size(fresh) > 0 &&\n[{old}].exists(old,\n"
        f"(fresh + old).all(c, string({time.format('c')}).matches({_pattern(TIME)})) &&\n"
        f"old.all(o, fresh.all(c, timestamp(c.lastHeartbeatTime) - timestamp(o.lastHeartbeatTime) <\n"
        f"duration('{LIMIT}s')) &&\n"
        "fresh.exists(c, timestamp(o.lastHeartbeatTime) <= timestamp(c.lastHeartbeatTime)))))"
    )
    put_back = f"!({_all('variables.new$ == variables.old$')})"
    # An amount that is left as written may count like the stored one, and be another: 1.0001 and 1 CPU.
    as_stored = " &&\n".join(
        f"(variables.final{_key(cell)} != variables.new{_key(cell)} ||\n{_written('object', cell)} == "
        f"{_written('oldObject', cell)})"
        for cell in CELLS
    )
    changes = ("isRecordChanged", *(f"isNamesChanged{field.capitalize()}" for field in FIELDS))
    untouched = " && ".join(f"!variables.{each}" for each in changes)
    conditions = [
        f"variables.byKubelet && variables.isAsStored && {put_back} && {untouched}",
        f"!('{names.AMPLIFIED}' in variables.annotations)",
        f"has({written}) && has({stored})",
        "has(object.status.capacity) && has(oldObject.status.capacity)",
        "has(object.status.allocatable) && has(oldObject.status.allocatable)",
        of_object,
        of_metadata,
        of_status,
        of_amounts,
        as_stored,
        pairs,
        times,
    ]
    return " &&\n".join(conditions)
