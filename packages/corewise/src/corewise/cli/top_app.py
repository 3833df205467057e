"""``corewise top`` on a terminal: three tables to sort, filter and scroll, and the explanation of every row.

While the API server is away, the last data stay, and the screen says how old they are. Color is for severity
alone, and is the terminal's own: everything else is bold or reversed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Footer, Input, Static

from corewise.cli.errors import Failure
from corewise.cli.same_cluster import for_same_cluster
from corewise.cli.top_sheet import Sheet
from corewise.cli.top_table import RowTable
from corewise.kube.clock import SYSTEM_CLOCK, Clock
from corewise.kube.errors import KubeError
from corewise.service.program import on_stop_signals
from corewise.views.explanation import Explanation, Line, Part
from corewise.views.text import count
from corewise.views.top_data import TopData, TopTable
from corewise.vocabulary.errors import OperationalError

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
        shown = (part.with_texts(for_same_cluster).on(width) for part in self._parts)
        self.query_one(Static).update(Content("\n".join(shown)))

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
            self._remarks = [*map(for_same_cluster, self._data.remarks(table, rows))]
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
