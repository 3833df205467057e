"""The table of ``corewise top``: titles and sum stay, rows scroll, and a click does what a key does.

Only the rows on the screen are drawn. The cursor stays on its row while data change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from corewise.cli.top_sheet import Sheet
from corewise.views.tables import Column

_FIXED = 2
"""The lines above the rows that do not scroll: titles, and the sum."""
_BETWEEN = "  "


class RowTable(ScrollView, can_focus=True):
    """A sheet on the screen, below its titles and its sum."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Explain"),
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "first", show=False),
        Binding("end,G", "last", show=False),
        Binding("<", "sort(-1)", "Sort", key_display="< >"),
        Binding(">", "sort(1)", show=False),
        Binding("r", "reverse", "Reverse"),
    ]

    class RowChosen(Message):
        """A row was chosen."""

    class Changed(Message):
        """Other rows or columns are shown, or in another order."""

    def __init__(self, sheet: Sheet[Any], name: str) -> None:
        super().__init__(id=name)
        self.sheet = sheet
        self.drawn = 0
        """How many lines have been drawn."""
        self._fitted: dict[int, int] = {}

    @property
    def left_out(self) -> int:
        """The number of columns that do not fit."""
        return len(self.sheet.columns) - len(self._fitted)

    @property
    def _page(self) -> int:
        """The number of rows on the screen."""
        return max(1, self.size.height - _FIXED)

    def change(self, change: Callable[[], None]) -> None:
        """Change the sheet, and draw it; a cursor on the screen stays on its line."""
        line = min(max(self.sheet.cursor - self.scroll_offset.y, 0), self._page - 1)
        change()
        self._fit()
        self.scroll_to(y=self.sheet.cursor - line, animate=False, immediate=True)
        self.refresh()
        self.post_message(self.Changed())

    def _fit(self) -> None:
        self._fitted = self.sheet.layout(self.size.width)
        self.virtual_size = Size(self.size.width, len(self.sheet.shown) + _FIXED)

    def on_resize(self) -> None:
        self._fit()
        self.action_move(0)
        self.post_message(self.Changed())

    def render_line(self, y: int) -> Strip:
        """Draw one line: titles, sum, or the row that is scrolled there."""
        self.drawn += 1
        segments: list[Segment] = []
        if y == 0:
            for place, title in zip(self._fitted, self.sheet.titles(self._fitted), strict=True):
                sorts = self.sheet.columns[place] is self.sheet.sorted_by
                segments += [Segment(title, Style(bold=True, underline=sorts)), Segment(_BETWEEN)]
            return Strip(segments).adjust_cell_length(self.size.width)
        place = self.scroll_offset.y + y - _FIXED
        row = self.sheet.total if y == 1 else None
        if y >= _FIXED and place < len(self.sheet.shown):
            row = self.sheet.shown[place]
        if row is None:
            return Strip.blank(self.size.width)
        line = Style(reverse=True) if y >= _FIXED and place == self.sheet.cursor else Style()
        for text, severity in self.sheet.cells(row, self._fitted):
            segments += [Segment(text, line + Style(color=severity)), Segment(_BETWEEN, line)]
        return Strip(segments).adjust_cell_length(self.size.width, line)

    def action_move(self, rows: int) -> None:
        self._move_to(self.sheet.cursor + rows)

    def action_page(self, pages: int) -> None:
        self._move_to(self.sheet.cursor + pages * self._page)

    def action_first(self) -> None:
        self._move_to(0)

    def action_last(self) -> None:
        self._move_to(len(self.sheet.shown))

    def _move_to(self, place: int) -> None:
        self.sheet.move(place)
        top = self.scroll_offset.y
        top = max(min(top, self.sheet.cursor), self.sheet.cursor - self._page + 1)
        self.scroll_to(y=top, animate=False, immediate=True)
        self.refresh()

    def action_sort(self, columns: int) -> None:
        """Sort by another of the columns that fit."""
        fitting = [self.sheet.columns[place] for place in self._fitted]
        if not fitting:
            return
        now = fitting.index(self.sheet.sorted_by) if self.sheet.sorted_by in fitting else 0
        self._sort(fitting[(now + columns) % len(fitting)])

    def action_reverse(self) -> None:
        self._sort(self.sheet.sorted_by)

    def _sort(self, column: Column[Any]) -> None:
        self.change(lambda: self.sheet.sort(column))

    def action_open(self) -> None:
        if self.sheet.chosen is not None:
            self.post_message(self.RowChosen())

    def on_click(self, event: Click) -> None:
        """Sort by a title, go to a row, or open it with a double click."""
        place = self.scroll_offset.y + event.y - _FIXED
        if event.y == 0:
            start = 0
            for column, width in self._fitted.items():
                if start <= event.x < start + width:
                    self._sort(self.sheet.columns[column])
                start += width + len(_BETWEEN)
        elif event.y >= _FIXED and place < len(self.sheet.shown):
            self._move_to(place)
            if event.chain > 1:
                self.action_open()
