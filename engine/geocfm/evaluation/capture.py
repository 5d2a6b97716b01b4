"""The capture curve: which share of the occurrences lies in the best share of the area.

On training tiles geologists call it the success rate, on held-out tiles the prediction rate.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

BINS = 65_536
LOWEST, HIGHEST = -40.0, 24.0  # log2 of relative density; a bin is a thousandth of an octave
REPORTED_SHARES = (0.01, 0.05, 0.1, 0.2)


@dataclass
class CaptureCurve:
    """Area and occurrences by rank of density, gathered block by block in constant memory."""

    area: NDArray[np.float64] = field(default_factory=lambda: np.zeros(BINS))
    occurrences: NDArray[np.float64] = field(default_factory=lambda: np.zeros(BINS))

    def add_cells(self, density: NDArray[np.floating], km2: NDArray[np.float64]) -> None:
        """Cells with data, (N,), and their areas."""
        self.area += np.bincount(_bin(density), weights=km2, minlength=BINS)

    def add_occurrences(
        self, density: NDArray[np.floating], weights: NDArray[np.float64] | None = None
    ) -> None:
        """The density at each occurrence, (N,), and for how many each counts: one by default."""
        self.occurrences += np.bincount(_bin(density), weights, minlength=BINS)

    @property
    def count(self) -> int:
        """How many occurrences there are."""
        return int(self.occurrences.sum())

    def points(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Area shares and captured shares from 0 to 1, best cells first."""
        used = np.nonzero((self.area > 0) | (self.occurrences > 0))[0][::-1]
        area = np.concatenate([[0.0], self.area[used].cumsum()])
        captured = np.concatenate([[0.0], self.occurrences[used].cumsum()])
        return area / max(area[-1], 1e-300), captured / max(captured[-1], 1e-300)

    def captured(self, area_share: float) -> float:
        """Share of occurrences in the best ``area_share``; cells of equal density share credit."""
        return float(np.interp(area_share, *self.points()))

    def credit(self, density: NDArray[np.floating], area_share: float) -> NDArray[np.float64]:
        """How much of each occurrence (N,) of that density lies in the best ``area_share``."""
        better = np.cumsum(self.area[::-1])[::-1] - self.area  # the area of higher bins
        chosen = _bin(density)
        left = area_share * self.area.sum() - better[chosen]
        return np.clip(left / np.maximum(self.area[chosen], 1e-300), 0.0, 1.0)

    def outranked(self, density: NDArray[np.floating]) -> NDArray[np.float64]:
        """The share of the area that each density (N,) outranks; half of what it ties with."""
        chosen = _bin(density)
        lower = np.cumsum(self.area)[chosen] - self.area[chosen] / 2
        return lower / self.area.sum()

    def under_curve(self) -> float:
        """Area under the curve; chance gives 0.5."""
        area, captured = self.points()
        return float(((captured[1:] + captured[:-1]) / 2 * np.diff(area)).sum())

    def to_dict(self) -> dict[str, object]:
        """For the evaluation's JSON."""
        if not self.count:
            return {"occurrences": 0, "area_km2": float(self.area.sum())}
        area, captured = self.points()
        keep = np.unique(np.searchsorted(area, np.linspace(0, 1, 201)).clip(0, len(area) - 1))
        return {
            "occurrences": self.count,
            "area_km2": float(self.area.sum()),
            "area_under_curve": self.under_curve(),
            "captured": {f"{share:g}": self.captured(share) for share in REPORTED_SHARES},
            "curve": {
                "area_share": area[keep].round(6).tolist(),
                "captured_share": captured[keep].round(6).tolist(),
            },
        }


def bin_logs() -> NDArray[np.float64]:
    """Natural logarithm of the relative density in the middle of each bin, (BINS,)."""
    middles = LOWEST + (np.arange(BINS) + 0.5) * (HIGHEST - LOWEST) / BINS
    return middles * np.log(2.0)


def _bin(density: NDArray[np.floating]) -> NDArray[np.int64]:
    logs = np.log2(np.maximum(density.astype(np.float64), 2.0**LOWEST))
    position = (logs - LOWEST) / (HIGHEST - LOWEST) * BINS
    return np.clip(position.astype(np.int64), 0, BINS - 1)
