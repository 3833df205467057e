"""PATCH requests: their effect on an object, and the owners of its fields afterwards.

Pure functions on JSON documents. None changes its arguments, and whatever a patch does not touch is the
very same object in the result: later steps (defaults, validation, ownership) skip what ``is`` unchanged,
which is what makes a status patch of a large object cheap.
"""

from kubedouble.patching.apply import apply, untyped
from kubedouble.patching.json_patch import PatchTestError, json_equal, json_patch, merge_patch
from kubedouble.patching.ownership import track_update
from kubedouble.patching.strategic_merge import strategic_merge_patch

__all__ = [
    "PatchTestError",
    "apply",
    "json_equal",
    "json_patch",
    "merge_patch",
    "strategic_merge_patch",
    "track_update",
    "untyped",
]
