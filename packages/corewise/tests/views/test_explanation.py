"""How ``corewise explain`` lays out its lines: labels, texts, and the space between them."""

from __future__ import annotations

from corewise.views.explanation import Line, explanation


def test_labels_never_touch_their_texts_and_texts_align() -> None:
    shown = explanation(
        "h",
        [Line("bandwidth", "a"), Line("memorybandwidth", "b"), Line("worker-17.example", "c")],
        None,
    )
    assert shown.splitlines() == [
        "h",
        "  bandwidth         a",
        "  memorybandwidth   b",
        "  worker-17.example c",
    ]


def test_very_long_label_moves_only_its_own_text() -> None:
    shown = explanation("h", [Line("n" * 40, "a"), Line("requests", "b"), Line("requests", "c")], None)
    assert shown.splitlines() == ["h", f"  {'n' * 40} a", "  requests       b", "                 c"]


def test_too_long_line_wraps_below_its_own_text() -> None:
    shown = explanation("n1: word word word word word", [Line("ratio", "one two three four five")], 30)
    assert shown.splitlines() == [
        "n1: word word word word word",
        "  ratio          one two three",
        "                 four five",
    ]
