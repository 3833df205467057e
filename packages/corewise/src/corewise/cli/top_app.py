"""``corewise top`` on a terminal: three tables to sort, filter and scroll, and the explanation of every row.

Only the rows on the screen are drawn. The cursor stays on its row while data change. While the API server is
away, the last data stay, and the screen says how old they are. Color is for severity alone, and is the
terminal's own: everything else is bold or reversed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import ContentSwitcher, Footer, Input, Static

from corewise.cli.errors import Failure
from corewise.cli.top_sheet import Sheet
from corewise.kube.clock import SYSTEM_CLOCK, Clock
from corewise.kube.errors import KubeError
from corewise.service.program import on_stop_signals
from corewise.views.explanation import Explanation, Line, Part
from corewise.views.tables import Column
from corewise.views.text import count
from corewise.views.top_data import TopData, TopTable
from corewise.vocabulary.errors import OperationalError

_FIXED = 2
"""The lines above the rows that do not scroll: titles, and the sum."""
_BETWEEN = "  "

HELP = Explanation(
    "corewise top: the cluster's CPU, as it changes",
    [
        Part(
            {},
            [
                Line("1 2 3", "Nodes, pods, and what offline pods have on each node."),
                Line("up, down", "Another row; also k and j, Page Up, Page Down, Home, End."),
                Line("Enter", "All of a row, and what explains it; so does a double click."),
                Line("/", "Only rows with a text. Enter keeps it, Escape removes it."),
                Line("< >", "Sort by the next column; so does a click on its title."),
                Line("r", "The reverse order. Figures begin with the largest."),
                Line("m", "Messages: problems, and what you may not read."),
                Line("q", "Back, or quit. Ctrl-C quits."),
                Line("", ""),
                Line("nodes", "RAW CPU x AMP = SCHEDULABLE, which pods request; USED is raw CPU."),
                Line("offline pods", "ONLINE + OFFLINE + IDLE = CPU, in raw CPUs."),
                Line("*", "The sum of the rows that the filter shows."),
                Line("columns", "A wider terminal shows more of them, Enter all."),
                Line("as text", "corewise top nodes --once (or pods, or offline)"),
            ],
        )
    ],
)


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


class TextScreen(Screen[None]):
    """A text to read and scroll, wrapped again when the terminal's width changes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "app.pop_screen", "Back", key_display="q"),
        Binding("up,k", "scroll_line(-1)", "Scroll", key_display="↑ ↓"),
        Binding("down,j", "scroll_line(1)", show=False),
    ]
    CSS = "VerticalScroll { scrollbar-size-vertical: 1; }"

    def __init__(self, *parts: Explanation, more: Awaitable[Explanation] | None = None) -> None:
        super().__init__()
        self._parts: Sequence[Explanation] = parts
        self._more = more

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        if self._more is not None:
            self.run_worker(self._wait(self._more))

    async def _wait(self, more: Awaitable[Explanation]) -> None:
        waiting = Explanation("Reading the cluster ...", [])
        known, self._parts = self._parts, [waiting, *self._parts]
        self._write()
        self._parts = [await more, *known]
        self._write()

    def on_resize(self, _event: Resize) -> None:
        self._write()

    def _write(self) -> None:
        width = self.app.size.width - 2
        self.query_one(Static).update(Content("\n".join(part.on(width) for part in self._parts)))

    def action_scroll_line(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)


class TopApp(App[None]):
    """The application. ``follow`` is called with a table before its first rows are needed."""

    TITLE = "corewise top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen, Footer, Footer FooterKey, Input, Input:focus { background: ansi_default; color: ansi_default; }
    FooterKey .footer-key--key { color: ansi_default; background: ansi_default; text-style: bold; }
    FooterKey .footer-key--description { color: ansi_default; background: ansi_default; }
    #head { height: auto; link-style: none; link-color: ansi_default; link-background: ansi_default;
            link-style-hover: reverse; link-color-hover: ansi_default; link-background-hover: ansi_default; }
    #lost { height: auto; color: ansi_red; text-style: bold; display: none; }
    #state, #remark { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    ContentSwitcher { height: 1fr; }
    RowTable { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    #filter { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"show({number})", show=False) for number in (1, 2, 3)),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("escape", "no_filter", "All"),
        Binding("m", "messages", "Messages"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(
        self,
        data: TopData,
        first: str,
        interval: float,
        follow: Callable[[TopTable[Any]], None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(ansi_color=True)
        self._data, self._follow, self._clock = data, follow, clock
        self._interval = interval
        self._current_name = first
        self._remarks: list[str] = []
        self._tables = {
            name: RowTable(Sheet(table.columns, table.total), name) for name, table in data.tables.items()
        }
        self._switcher = ContentSwitcher(*self._tables.values(), initial=first)
        self._head = Static(id="head")
        self._lost, self._state, self._remark = (
            Static(id=name, markup=False) for name in ("lost", "state", "remark")
        )
        self._field = Input(id="filter", placeholder="text to look for, in any column", compact=True)

    @property
    def current(self) -> RowTable:
        """The table that is shown."""
        return self._tables[self._current_name]

    @property
    def _table(self) -> TopTable[Any]:
        return self._data.tables[self._current_name]

    def compose(self) -> ComposeResult:
        yield self._head
        yield self._lost
        yield self._switcher
        yield self._field
        yield self._state
        yield self._remark
        yield Footer(show_command_palette=False)

    async def on_mount(self) -> None:
        self.theme = "ansi-dark"
        self.set_interval(self._interval, self.take)
        await self.action_show(1 + list(self._tables).index(self._current_name))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """Leave the tables alone while a text is shown above them; only a filter that is there can go."""
        if action == "no_filter":
            return len(self.screen_stack) == 1 and (self._field.display or bool(self.current.sheet.filter))
        return len(self.screen_stack) == 1 or action not in {"show", "filter", "messages", "help"}

    def take(self) -> None:
        """Show the data as they are now."""
        table = self._table
        if self._data.ready(table):
            rows = table.rows(self._clock.now())
            self._remarks = self._data.remarks(table, rows)
            self.current.change(lambda: self.current.sheet.update(rows))
        self._tell()

    def _tell(self) -> None:
        """Update the status lines: what is shown, how old it is, and what the table does not show."""
        lost = self._data.lost
        self._lost.display = lost is not None
        if lost is not None:
            self._lost.update(f"STALE: the API server last answered {lost.seconds} s ago: {lost.message}")
        tabs = []
        for number, (name, shown) in enumerate(self._tables.items(), 1):
            style = "reverse" if name == self._current_name else "none"
            known = f" ({len(shown.sheet)})" if len(shown.sheet) else ""
            title = f"{number} {self._data.tables[name].title}{known}"
            tabs.append(f"[@click=app.show({number})][{style}] {title} [/][/]")
        self._head.update(f"{'  '.join(tabs)}  {self._clock.now():%H:%M:%S} UTC")
        self._state.update(self._description())
        more = f"(m: {len(self._remarks)} messages) " if len(self._remarks) > 1 else ""
        self._remark.update(more + self._remarks[0] if self._remarks else "")

    def _description(self) -> str:
        sheet, noun = self.current.sheet, self._table.noun
        if not self._data.ready(self._table):
            return f"Reading {noun}s ..."
        shown = count(len(sheet), noun)
        if sheet.filter:
            shown = f"{len(sheet.shown)} of {shown} with {sheet.filter!r}"
        order = "in reverse " if sheet.reverse else ""
        left_out = self.current.left_out
        hidden = f"; {count(left_out, 'column')} left out (Enter shows all)" if left_out else ""
        return f"{shown}, {order}by {sheet.sorted_by.title}{hidden}"

    def on_row_table_changed(self) -> None:
        self._state.update(self._description())

    async def action_show(self, number: int) -> None:
        """Show a table; what it needs is followed from then on."""
        self._current_name = list(self._tables)[number - 1]
        self._switcher.current = self._current_name
        self._field.display = False
        self.current.focus()
        self._follow(self._table)
        self._tell()
        self.run_worker(self._first(self._table), exclusive=True)

    async def _first(self, table: TopTable[Any]) -> None:
        with suppress(KubeError):  # the screen says what is wrong, and goes on trying
            await self._data.listed(table)
        self.take()

    def action_filter(self) -> None:
        self._field.value = self.current.sheet.filter
        self._field.display = True
        self._field.focus()
        self.refresh_bindings()

    def action_no_filter(self) -> None:
        self._field.value = ""
        self._field.display = False
        self._search("")
        self.current.focus()
        self.refresh_bindings()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._search(event.value)

    def on_input_submitted(self) -> None:
        self._field.display = False
        self.current.focus()

    def _search(self, words: str) -> None:
        table = self.current
        if words != table.sheet.filter:
            table.change(lambda: table.sheet.search(words))

    def on_row_table_row_chosen(self) -> None:
        """Show all of a row, and its explanation."""
        table, sheet = self._table, self.current.sheet
        row = sheet.chosen
        if row is None:  # it is gone since
            return
        lines = [
            Line(column.title, text)
            for column, text in zip(sheet.columns, sheet.texts(row), strict=True)
            if text
        ]
        command = Line("explained by", f"{table.command} {row.name}")
        known = Explanation("All columns:", [Part({}, [command, *lines])])
        self.push_screen(TextScreen(known, more=self._explained(table, row.name)))

    async def _explained(self, table: TopTable[Any], name: str) -> Explanation:
        try:
            explained, missing = await table.explain(name)
        except OperationalError as error:
            return Explanation(str(Failure.of(error)), [])
        return Explanation(
            explained.heading, [*explained.parts, Part({}, [Line("missing", each) for each in missing])]
        )

    def action_messages(self) -> None:
        lines = [Line("", each) for each in self._remarks or ["Nothing: the table shows everything."]]
        self.push_screen(TextScreen(Explanation("Messages", [Part({}, lines)])))

    def action_help(self) -> None:
        self.push_screen(TextScreen(HELP))


async def show(data: TopData, first: str, interval: float, follow: Callable[[TopTable[Any]], None]) -> None:
    """Show the tables until the user quits, or SIGINT or SIGTERM arrives."""
    app = TopApp(data, first, interval, follow)
    on_stop_signals(app.exit)
    await app.run_async()
