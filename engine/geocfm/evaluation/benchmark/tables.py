"""Tables as data: written as Markdown, and given to the terminal to draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geocfm.data.synthetic_settings import REFERENCE_SIZE

NOTHING = "–"  # in a cell whose column means nothing for its row


@dataclass(frozen=True)
class Estimate:
    """A mean over images, or over seeds, and what stands after the +-."""

    mean: float
    error: float
    count: int

    def text(self, digits: int) -> str:
        """As in the paper: 9.37 ± 0.62; a dash where there is nothing to average."""
        if not self.count:
            return NOTHING
        if math.isinf(self.mean):
            return "∞" if self.mean > 0 else "-∞"
        if not math.isfinite(self.error):
            return f"{self.mean:.{digits}f}"
        return f"{self.mean:.{digits}f} ± {self.error:.{digits}f}"


def over_images(values: Sequence[float | str | None]) -> Estimate:
    """Mean and its standard error; one infinite value makes the mean infinite.

    Images without a value are left out: ``without_value`` counts them.
    """
    known = np.array([v for v in map(_number, values) if not math.isnan(v)])
    if not len(known):
        return Estimate(math.nan, math.nan, 0)
    if np.isinf(known).any():
        return Estimate(float(known[np.isinf(known)].sum()), math.nan, len(known))
    error = known.std(ddof=1) / math.sqrt(len(known)) if len(known) > 1 else math.nan
    return Estimate(float(known.mean()), float(error), len(known))


def without_value(values: Sequence[float | str | None]) -> int:
    """How many of the images have none."""
    return sum(math.isnan(_number(value)) for value in values)


def _number(value: float | str | None) -> float:
    """A value as JSON holds it: None for NaN, "inf" as text."""
    return math.nan if value is None else float(value)


def over_seeds(values: Sequence[float]) -> Estimate:
    """Mean and standard deviation, as the paper reports retrained models."""
    found = over_images(values)
    return Estimate(found.mean, found.error * math.sqrt(max(found.count, 1)), found.count)


@dataclass(frozen=True)
class Cell:
    """Our value, the paper's (empty where it has none), and whether ours is the best."""

    ours: str
    paper: str = ""
    best: bool = False


@dataclass(frozen=True)
class Row:
    """A method or a setting, and its values."""

    name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Group:
    """Rows that belong together; a name may be empty."""

    name: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """A title, headings (the first is that of the names), groups of rows, and notes below."""

    title: str
    headings: tuple[str, ...]
    groups: tuple[Group, ...]
    notes: tuple[str, ...] = ()

    def of_images(self, size: int) -> Table:
        """The same with a word on the paper's values; without them if images have another size."""
        if size == REFERENCE_SIZE:
            return replace(self, notes=(*self.notes, "In parentheses the paper's."))
        groups = tuple(
            replace(
                group,
                rows=tuple(
                    replace(row, cells=tuple(replace(cell, paper="") for cell in row.cells))
                    for row in group.rows
                ),
            )
            for group in self.groups
        )
        told = f"The paper's values are of images of {REFERENCE_SIZE} px, and are left out here."
        return replace(self, groups=groups, notes=(*self.notes, told))

    def markdown(self) -> str:
        """For a file; the paper's value stands in parentheses, the best is bold."""
        lines = [f"## {self.title}", "", _line(self.headings), _line(["---"] * len(self.headings))]
        for group in self.groups:
            if group.name:
                lines.append(_line([f"*{group.name}*"] + [""] * (len(self.headings) - 1)))
            lines += [_line([row.name, *map(_marked, row.cells)]) for row in group.rows]
        lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines).rstrip() + "\n"

    def content(self) -> dict[str, Any]:
        """What the report event carries; the terminal draws it."""
        return {
            "title": self.title,
            "headings": list(self.headings),
            "groups": [
                {
                    "name": group.name,
                    "rows": [
                        {
                            "name": row.name,
                            "cells": [
                                {"ours": c.ours, "paper": c.paper, "best": c.best}
                                for c in row.cells
                            ],
                        }
                        for row in group.rows
                    ],
                }
                for group in self.groups
            ],
            "notes": list(self.notes),
        }


def best_of(estimates: Sequence[Estimate], *, lower_is_better: bool) -> int | None:
    """Which of them is best; None if none has a value."""
    known = [
        (e.mean if lower_is_better else -e.mean, n) for n, e in enumerate(estimates) if e.count
    ]
    return min(known)[1] if known else None


def counted(count: float, what: str) -> str:
    """1 minute, 1.5 minutes."""
    return f"{count:g} {what}" if count == 1 else f"{count:g} {what}s"


def _line(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _marked(cell: Cell) -> str:
    ours = f"**{cell.ours}**" if cell.best else cell.ours
    return f"{ours} ({cell.paper})" if cell.paper else ours
