from __future__ import annotations

from corewise.agent.latest import Latest


def test_other_arguments_alone_compute_again() -> None:
    asked: list[tuple[tuple[str, ...], int]] = []

    def count(names: tuple[str, ...], more: int) -> int:
        asked.append((names, more))
        return len(names) + more

    latest = Latest(count)
    cases = (("a", "b"), 1), (("a", "b"), 1), (("a",), 1), (("a",), 2), (("a", "b"), 1)
    assert [latest(*case) for case in cases] == [3, 3, 2, 3, 3]
    assert asked == [cases[0], cases[2], cases[3], cases[4]]
