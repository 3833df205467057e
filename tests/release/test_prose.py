"""Each rule of tools.prose refuses a bad line, and lets names pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.prose import found, main


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", 'def f():\n    """Return what is left."""'),
        ("a.py", 'class A:\n    """Say why it failed."""'),
        ("a.py", '"""Read ane' + 'w."""'),
        ("a.py", "x = 1  # waits for" + " ever"),
        ("a.py", "x = f'evicts nobo" + "dy of {y}'"),
        ("a.py", "x = 'any host, be" + " it full'"),
        ("a.py", "# the colo" + "ur"),
        ("a.py", "x = 'is not hono" + "ured'"),
        ("a.py", "x = 'was cancel" + "led'"),
        ("a.md", "The behavi" + "our of pods"),
        ("a.md", "Normal" + "ised CPUs"),
        ("a.py", "def test_a_name_of_nine_words_is_one_too_many(): ..."),
    ],
)
def test_a_bad_line_is_reported(
    tmp_path: Path, name: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert len(list(found(path))) == 1
    assert main([str(path)]) == 1
    assert capsys.readouterr().out.startswith(f"{path}:")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", 'def f():\n    """Return the rest."""'),
        ("a.py", "user = 'nobo" + "dy'"),
        ("a.py", "x = task.cancelled()  # task.cancelled() is asyncio's"),
        ("a.md", "Run it as `nobo" + "dy`."),
        ("a.py", "x = 'explain pod nobo" + "dy'"),
    ],
)
def test_a_name_passes(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert main([str(path)]) == 0
