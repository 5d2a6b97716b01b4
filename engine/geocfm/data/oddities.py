"""What a layer's values look like: codes of classes, or a no-data value that nobody declared.

Looked for block by block within the scan, so nothing is read twice and little is kept.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from geocfm.geo.rasters import Layer

MOST_CODES = 32  # a layer of more different values is taken for a measurement
FEWEST_CODES = 3  # a layer of two is a mask, which serves as it is
MOSTLY = 0.5  # resampling makes fractions, but only along the edges of areas of one code
EXTREME = 0.99e20  # no geophysical unit reaches this, a filler of cells without data does
USUAL_FILLERS = (-9999.0, -99999.0, -999999.0, 99999.0, 999999.0, -32768.0)
SAME = 1e-6  # relative; averaging cells of one value rounds it
FAR_OUT = 5  # standard deviations of the other values


@dataclass
class Oddities:
    """What was noticed in one layer."""

    layer: Layer
    codes: set[float] = field(default_factory=set)
    whole_cells: int = 0
    cells: int = 0
    farthest: float = 0.0
    fillers: Counter[float] = field(default_factory=Counter)

    def add(self, values: NDArray[np.floating]) -> None:
        """Look at the values (N,) of another block; N > 0."""
        low, high = float(values.min()), float(values.max())
        self.farthest = max(self.farthest, low, high, key=abs)
        for filler in self._usual_fillers():
            near = SAME * abs(filler)
            if any(abs(end - filler) <= near for end in (low, high)):
                alike = np.abs(values - np.float32(filler)) <= near
                self.fillers[filler] += int(alike.sum())
        self.cells += values.size
        if self.layer.whole and not self.layer.categorical and len(self.codes) <= MOST_CODES:
            self._collect(values)

    def _usual_fillers(self) -> list[float]:
        """As they come out of the layer's scale."""
        return [self.layer.scale * filler + self.layer.offset for filler in USUAL_FILLERS]

    def _collect(self, values: NDArray[np.floating]) -> None:
        left = values[values == np.rint(values)]
        self.whole_cells += left.size
        # faster than sorting while the values are few, and the search ends when they are many
        for code in self.codes:
            left = left[left != code]
        while left.size and len(self.codes) <= MOST_CODES:
            self.codes.add(float(left[0]))
            left = left[left != left[0]]

    def count_codes(self) -> int:
        """How many different whole numbers the layer holds; 0 if they do not look like codes."""
        few = FEWEST_CODES <= len(self.codes) <= MOST_CODES
        return len(self.codes) if few and self.whole_cells >= MOSTLY * self.cells else 0

    def filler(self, count: int, mean: float, std: float) -> float | None:
        """A value that seems to stand for no data, given the statistics of all values."""
        if abs(self.farthest) >= EXTREME:
            return self.farthest
        for value, often in self.fillers.items():
            others = count - often
            if not others:
                continue
            centre = (count * mean - often * value) / others
            squares = count * std**2 - often * (value - mean) ** 2 - others * (centre - mean) ** 2
            spread = (max(squares, 0.0) / others) ** 0.5
            if abs(value - centre) > FAR_OUT * spread:
                return value
        return None
