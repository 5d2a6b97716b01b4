"""What a map is worth on tiles the model never saw, and on those it learned from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import rasterio
from numpy.typing import NDArray

from geocfm.data.split import TEST, TRAIN, VALIDATION, Split
from geocfm.data.windows import blocks
from geocfm.evaluation.capture import CaptureCurve
from geocfm.geo.grid import Grid, Window
from geocfm.inference.regional_map import RawMap


@dataclass(frozen=True)
class Evaluation:
    """Capture on the checkpoint's own test tiles, and on its training tiles."""

    test: CaptureCurve
    validation: CaptureCurve
    train: CaptureCurve
    on_no_data: int
    densities: NDArray[np.float64]  # at every occurrence; NaN on no-data

    def to_dict(self) -> dict[str, object]:
        """For the JSON file."""
        return {
            "test": self.test.to_dict(),
            "validation": self.validation.to_dict(),
            "train": self.train.to_dict(),
            "occurrences_on_no_data": self.on_no_data,
            "meaning": "captured: share of occurrences in the most prospective share of the area; "
            "chance captures the share of the area itself.",
        }


def evaluate_map(
    raw: RawMap, grid: Grid, points: NDArray[np.float64], split: Split, split_grid: Grid
) -> Evaluation:
    """Stream the map once. ``split_grid`` is the grid the split's tiles are counted on."""
    curves = {role: CaptureCurve() for role in (TEST, VALIDATION, TRAIN)}
    split = split.on_grid(grid, split_grid)
    cells = np.floor(points).astype(np.int64)
    point_roles = split.role_of_points(points)
    at_points = np.full(len(points), np.nan)
    with rasterio.open(raw.path) as source:
        for block in blocks(grid.window(), 1):
            density = source.read(1, window=block.to_rasterio()) / raw.mean
            valid = np.isfinite(density)
            km2 = np.broadcast_to(grid.cell_areas(block), density.shape)
            roles = split.role_of_cells(
                np.arange(block.row, block.row_stop, dtype=np.float64) + 0.5,
                np.arange(block.col, block.col_stop, dtype=np.float64) + 0.5,
            )
            row, col, here = _cells_in(block, cells)
            found = valid[row, col]
            at_points[here] = np.where(found, density[row, col], np.nan)
            for role, curve in curves.items():
                chosen = valid & (roles == role)
                curve.add_cells(density[chosen], km2[chosen])
                curve.add_occurrences(density[row, col][found & (point_roles[here] == role)])
    missed = int(np.isnan(at_points).sum())
    return Evaluation(curves[TEST], curves[VALIDATION], curves[TRAIN], missed, at_points)


def _cells_in(
    block: Window, cells: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    row, col = cells[:, 1] - block.row, cells[:, 0] - block.col
    inside = (row >= 0) & (row < block.height) & (col >= 0) & (col < block.width)
    here = np.nonzero(inside)[0]
    return row[here], col[here], here
