"""A profile's patch is merged into a pod as the API server merges it, without the API server's code."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from corewise.colocation.strategic_merge import StrategicMergeError, merged_pod
from kubedouble.errors import StatusError
from kubedouble.patching.strategic_merge import strategic_merge_patch
from kubedouble.schema.kinds import all_types

JSON = dict[str, Any]
Values = st.SearchStrategy[Any]
POD = all_types()["io.k8s.api.core.v1.Pod"]

names = st.sampled_from("abcd")
scalars = names | st.sampled_from([1, True, ""])
texts = st.lists(names, max_size=4)
orders = (
    st.just([{"name": each, "ip": each} for each in "abcd"])
    | texts
    | st.lists(st.fixed_dictionaries({}, optional={"name": names, "ip": names}), max_size=4)
)
directives = st.fixed_dictionaries(
    {},
    optional={
        "$patch": st.sampled_from(["replace", "delete", "merge", "other", None]),
        "$retainKeys": st.lists(
            st.sampled_from(["name", "ip", "image", "emptyDir", "spec", "volumes"]), max_size=5
        )
        | names,
        **{
            f"$setElementOrder/{each}": orders | names
            for each in ("containers", "volumes", "hostAliases", "finalizers", "tolerations", "command")
        },
        **{f"$deleteFromPrimitiveList/{each}": texts | names for each in ("finalizers", "command", "")},
    },
)


def objects(fields: Mapping[str, Values], *, of_patch: bool, key: str = "") -> Values:
    """Draw objects; those of a patch have nulls, odd values and directives, and may lack their key."""
    known = {key: names} if key else {}
    if not of_patch:
        return st.fixed_dictionaries(known, optional=dict(fields))
    loose = {name: st.one_of(*[each] * 12, st.none(), scalars) for name, each in fields.items()}
    plain = st.fixed_dictionaries(known, optional=loose)
    keyless = st.fixed_dictionaries({}, optional=loose)
    directed = st.tuples(plain, directives).map(lambda both: both[0] | both[1])
    deleted = st.fixed_dictionaries(known, optional={"$patch": st.sampled_from(["delete", "replace"])})
    return st.one_of(*[plain] * 20, directed, directed, deleted, keyless)


def pods(*, of_patch: bool) -> Values:
    """Draw pods, or patches of pods, with every kind of list: merged by key, of scalars, and replaced."""

    def listed(key: str, **fields: Values) -> Values:
        items = st.lists(objects(fields, of_patch=of_patch, key=key), max_size=4)
        in_order = items.map(lambda found: sorted(found, key=lambda item: str(item.get(key))))
        odd = st.lists(scalars | texts, max_size=2)
        return st.one_of(*[items, in_order] * 6, odd) if of_patch else items

    env = listed("name", value=scalars, valueFrom=objects({"fieldRef": names}, of_patch=of_patch))
    containers = listed("name", image=scalars, command=texts, env=env)
    volumes = listed("name", emptyDir=objects({"medium": names}, of_patch=of_patch), hostPath=st.just({}))
    spec = objects(
        {
            "containers": containers,
            "volumes": volumes,
            "hostAliases": listed("ip", hostnames=texts),
            "tolerations": listed("key", effect=names),
            "nodeSelector": st.dictionaries(names, scalars, max_size=3),
            "hostname": scalars,
        },
        of_patch=of_patch,
    )
    labels = st.dictionaries(names, scalars | st.none() if of_patch else names, max_size=3)
    metadata = objects({"labels": labels, "finalizers": texts}, of_patch=of_patch)
    if of_patch:
        ordered = st.fixed_dictionaries(
            {"containers": containers}, optional={"$setElementOrder/containers": orders, "volumes": volumes}
        )
        spec = spec | ordered
    return st.fixed_dictionaries({"metadata": metadata, "spec": spec})


def outcome(merge: Callable[[JSON, JSON], JSON], pod: JSON, patch: JSON) -> tuple[str, str]:
    before = deepcopy((pod, patch))
    try:
        found = "merged", json.dumps(merge(pod, patch), sort_keys=True)
    except (StrategicMergeError, StatusError) as error:
        found = "refused", str(error)
    assert before == (pod, patch)
    return found


@settings(max_examples=400, deadline=None)
@given(pods(of_patch=False), pods(of_patch=True))
@example({"metadata": {"finalizers": []}}, {"metadata": {"finalizers": []}})
@example(
    {"metadata": {"finalizers": ["a", "b", "c"]}},
    {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "c"]}},
)
@example(
    {"spec": {"containers": [{"name": "a", "env": [{"name": "b"}]}]}},
    {"spec": {"containers": [{"name": "a", "env": [{"name": "c"}]}]}},
)
@example({"spec": {"containers": ["a"]}}, {"spec": {"containers": [{"name": "a"}]}})
@example({"spec": {"containers": [{"name": "a"}]}}, {"spec": {"containers": [{"name": ["a"]}]}})
@example(
    {"spec": {"volumes": [{"name": each} for each in "xayb"]}},
    {"spec": {"$setElementOrder/volumes": [{"name": "b"}, {"name": "a"}], "volumes": [{"name": "b"}]}},
)
def test_patch_merges_or_fails_as_in_api_server(pod: JSON, patch: JSON) -> None:
    expected = outcome(lambda old, change: strategic_merge_patch(old, change, POD), pod, patch)
    assert outcome(merged_pod, pod, patch) == expected


def test_node_and_control_plane_programs_load_no_apiserver() -> None:
    program = """
import importlib, json, pkgutil, sys
for package in ("config", "colocation", "manager", "agent", "scheduler"):
    path = importlib.import_module(f"corewise.{package}").__path__
    for module in pkgutil.walk_packages(path, f"corewise.{package}."):
        importlib.import_module(module.name)
from corewise.colocation.profiles import with_profile
from corewise.config.colocation_profile import parse_profile
from corewise.config.json_text import read_json
text = json.dumps({"metadata": {"name": "p"}, "spec": {"patch": {"spec": {"hostname": "h"}}}})
print(with_profile({"spec": {}}, parse_profile(read_json(text)).value, {})["spec"])
print(*[name for name in sys.modules if name.partition(".")[0] == "kubedouble"])
"""
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert loaded.stdout == "{'hostname': 'h'}\n\n"
