"""A table of results in the terminal: ours, and below each value what the paper reports."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

UNBOUNDED = 10_000  # characters
WIDEST_NAME = 26


class ResultsTable:
    """What a report of kind "table" holds; where it is too wide, errors go below their values."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """As wide as it needs to be, or else as narrow as it can be."""
        table = self._table(wide=True)
        unbounded = options.update(max_width=UNBOUNDED)
        if Measurement.get(console, unbounded, table).maximum > options.max_width:
            table = self._table(wide=False)
        yield Text("")
        yield Text(self._content["title"], style="bold")
        yield table
        for note in self._content["notes"]:
            yield Text(note, style="dim")

    def _table(self, *, wide: bool) -> Table:
        headings = [_broken(heading, wide=wide) for heading in self._content["headings"]]
        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        table.add_column(headings[0], max_width=WIDEST_NAME, no_wrap=not wide)
        for heading in headings[1:]:
            table.add_column(heading, justify="right", no_wrap=True)
        for group in self._content["groups"]:
            if group["name"] and wide:
                table.add_row(Text(group["name"], style="italic"))
            for row in group["rows"]:
                cells = [_cell(cell, wide=wide) for cell in row["cells"]]
                table.add_row(_broken(row["name"], wide=wide), *cells)
            table.add_section()
        return table


def _broken(text: str, *, wide: bool) -> Text:
    """Words in two lines where there is little room."""
    return Text(text if wide else text.replace(" ", "\n", 1))


def _cell(cell: dict[str, Any], *, wide: bool) -> Text:
    ours, paper = cell["ours"], cell["paper"]
    if not wide:
        ours, paper = ours.replace(" ± ", "\n±"), paper.partition(" ± ")[0]
    text = Text(ours, style="bold green" if cell["best"] else "")
    if paper:
        text.append(f"\n({paper})", style="dim not bold")
    return text
