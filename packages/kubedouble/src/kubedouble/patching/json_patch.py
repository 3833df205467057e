"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386) as the API server applies them.

A document is never changed in place: a patch copies the containers on the path of an operation once and
shares all others with the original, so that later steps can skip what is the same object.

Where RFC 6902 leaves room, kube-apiserver's library (evanphx/json-patch) decides: ``remove`` and ``replace``
of what is absent fail, negative array indices count from the end, and a failing operation answers 422 with
a fixed message.

Source: RFC 6901, RFC 6902, RFC 7386, k8s.io/apiserver/pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from kubedouble.errors import StatusError

_MAX_OPERATIONS = 10_000
_REJECTED = "the server rejected our request due to an error in our request"
_WITH_VALUE = frozenset({"add", "replace", "test"})
_WITH_SOURCE = frozenset({"move", "copy"})
_OPERATIONS = _WITH_VALUE | _WITH_SOURCE | {"remove"}


class PatchTestError(StatusError):
    """The value that a ``test`` operation expects is not there."""


class _OperationError(Exception):
    """An operation does not fit the document."""


class _TestError(_OperationError):
    """The place of a ``test`` is there, with another value or none."""


def json_patch(document: dict[str, Any], operations: Any) -> dict[str, Any]:
    """Return the document with the operations done in order; the document itself stays as it is.

    Raises:
        StatusError: 400 if the patch is not a list of operations, 413 if there are too many, 422 if one fails
            (PatchTestError for a ``test``).
    """
    _check_form(operations)
    editor = _Editor(document)
    for operation in operations:
        try:
            editor.run(operation)
        except _TestError:
            raise PatchTestError(422, "Invalid", _REJECTED) from None
        except _OperationError:
            raise StatusError(422, "Invalid", _REJECTED) from None
    if not isinstance(editor.root, dict):
        raise StatusError(400, "BadRequest", "json: the patched document is not an object")
    return editor.root


def _check_form(operations: Any) -> None:
    if not isinstance(operations, list):
        message = "json: cannot unmarshal object into Go value of type jsonpatch.Patch"
        raise StatusError(400, "BadRequest", message)
    if len(operations) > _MAX_OPERATIONS:
        message = (
            f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, got {len(operations)}"
        )
        raise StatusError(413, "RequestEntityTooLarge", message)
    if not all(isinstance(operation, dict) for operation in operations):
        raise StatusError(400, "BadRequest", "json: a patch is a list of operations")


class _Editor:
    """A document under edit: containers are copied before their first change, and only then."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._own: set[int] = set()
        self._alive: list[Any] = []

    def run(self, operation: dict[str, Any]) -> None:
        name = operation.get("op")
        if name not in _OPERATIONS:
            raise _OperationError(f"unexpected kind: {name}")
        path = _tokens(operation.get("path"))
        if name in _WITH_VALUE:
            if "value" not in operation and name != "test":
                raise _OperationError("a value is needed")
            value = operation.get("value")
        elif name in _WITH_SOURCE:
            value = self.get(_tokens(operation.get("from")))
            if name == "copy":
                value = deepcopy(value)  # else a later change of one place would show in the other
        if name == "test":
            self.test(path, value)
        elif name == "remove":
            self.remove(path)
        elif name == "replace":
            self.replace(path, value)
        else:
            if name == "move":
                self.remove(_tokens(operation["from"]))
            self.add(path, value)

    def get(self, path: list[str]) -> Any:
        value = self.root
        for token in path:
            value = _child(value, token)
        return value

    def test(self, path: list[str], expected: Any) -> None:
        parent = self.get(path[:-1])
        absent = isinstance(parent, dict) and path and path[-1] not in parent
        actual = None if absent else self.get(path)  # an absent field equals null, for the server's library
        if not json_equal(actual, expected):
            raise _TestError("test failed")

    def add(self, path: list[str], value: Any) -> None:
        if not path:
            self.root = value
            return
        parent = self._writable(path[:-1])
        if isinstance(parent, dict):
            parent[path[-1]] = value
        else:
            parent.insert(_index(parent, path[-1], inserting=True), value)

    def remove(self, path: list[str]) -> None:
        if not path:
            raise _OperationError("the whole document cannot be removed")
        _child(self.get(path[:-1]), path[-1])
        parent = self._writable(path[:-1])
        del parent[path[-1] if isinstance(parent, dict) else _index(parent, path[-1])]

    def replace(self, path: list[str], value: Any) -> None:
        if not path:
            self.root = value
            return
        _child(self.get(path[:-1]), path[-1])
        parent = self._writable(path[:-1])
        parent[path[-1] if isinstance(parent, dict) else _index(parent, path[-1])] = value

    def _writable(self, path: list[str]) -> Any:
        container = self.root = self._owned(self.root)
        for token in path:
            child = self._owned(_child(container, token))
            container[token if isinstance(container, dict) else _index(container, token)] = child
            container = child
        return container

    def _owned(self, container: Any) -> Any:
        if not isinstance(container, dict | list):
            raise _OperationError("the parent is neither an object nor an array")
        if id(container) in self._own:
            return container
        copy = container.copy()
        self._own.add(id(copy))
        self._alive.append(copy)  # an id names an object only while the object lives
        return copy


def _tokens(pointer: Any) -> list[str]:
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise _OperationError(f"{pointer!r} is not a JSON pointer")
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def _child(container: Any, token: str) -> Any:
    if isinstance(container, dict):
        if token not in container:
            raise _OperationError(f"missing key {token}")
        return container[token]
    if isinstance(container, list):
        return container[_index(container, token)]
    raise _OperationError("no such path")


def _index(container: list[Any], token: str, *, inserting: bool = False) -> int:
    if inserting and token == "-":  # noqa: S105 - the pointer's token for "past the end"
        return len(container)
    digits = token.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 9:
        raise _OperationError(f"{token} is not an index")
    index, size = int(token), len(container) + inserting
    if not -size <= index < size:
        raise _OperationError(f"index {token} is out of bounds")
    return index + size if index < 0 else index


def json_equal(left: Any, right: Any) -> bool:
    """Compare two JSON values; unlike Python's ``==``, ``true`` is not ``1``."""
    if left is right:
        return True
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(json_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(json_equal, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return False
    return bool(left == right)


def merge_patch(document: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Return the document with the patch merged in.

    Raises:
        StatusError: 400 if the patch is not a JSON object.
    """
    if not isinstance(patch, dict):
        raise StatusError(400, "BadRequest", "json: cannot unmarshal a patch that is not an object")
    return _merge(document, patch)


def _merge(target: Any, patch: dict[str, Any]) -> dict[str, Any]:
    result = target.copy() if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _merge(result.get(key), value)
        else:
            result[key] = value
    return result
