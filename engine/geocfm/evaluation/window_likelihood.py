"""How likely a method finds occurrences where they are, within windows: exact, in nats.

Unlike a capture curve this asks nothing of how windows compare, only of where in a window
occurrences lie, which is what a density given the window says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from geocfm.data.image import Image
from geocfm.data.region import Region
from geocfm.data.split import ROLES
from geocfm.evaluation.comparison import tile_interval
from geocfm.evaluation.region_baselines import read_image
from geocfm.events import Stage
from geocfm.geo.grid import Window

MOST_WINDOWS = {"train": 100, "validation": 100, "test": 400}  # spread over those there are
MASS_POINTS = 512  # for a flow's mass on a window: right to a few thousandths

LogDensity = Callable[[Image], NDArray[np.float64]]
"""Log density per cell at the occurrences of an image, normalised over its footprint."""


@dataclass(frozen=True)
class Likelihood:
    """Mean negative log density of the occurrences of a role, each the mean over its windows."""

    nll: float  # nats per occurrence and cell
    low: float | None  # of the 95 % interval by tiles; None where all lie on one
    high: float | None
    even: float  # what an even density over the same windows gives
    occurrences: int
    windows: int
    windows_left_out: int  # where a flow has no mass: they are not judged, and speak against it
    tiles: int

    def to_dict(self) -> dict[str, object]:
        """For the JSON file."""
        return asdict(self)


def windows_of(region: Region, role: str) -> list[Window]:
    """Windows of a role that hold an occurrence: half a window apart, and at the tiles' ends.

    Counted from the tiles' edges, as a tile is often hardly larger than a window.
    """
    starts, split = region.starts[role], region.split
    chosen = np.ones(len(starts), dtype=bool)
    for axis, edges in enumerate((split.row_edges, split.col_edges)):
        start = starts[:, axis]
        tile = np.searchsorted(edges, start, "right") - 1
        left = edges[tile + 1] - (start + region.plan.size)  # to the tile's end; less: beyond it
        spaced = (start - edges[tile]) % max(1, region.plan.size // 2) < region.plan.stride
        chosen &= spaced | ((left >= 0) & (left < region.plan.stride))
    starts = starts[chosen]
    some = np.linspace(0, len(starts) - 1, min(len(starts), MOST_WINDOWS[role])).astype(int)
    return [region.window(start) for start in starts[some]]


def likelihoods(region: Region, log_density: LogDensity, stage: Stage) -> dict[str, Likelihood]:
    """By role; a role without an occurrence in a window of its own has none."""
    windows = {role: windows_of(region, role) for role in ROLES}
    total, done = sum(map(len, windows.values())), 0
    found: dict[str, Likelihood] = {}
    for role, chosen in windows.items():
        count = np.zeros(len(region.points))
        nll, even = np.zeros(len(region.points)), np.zeros(len(region.points))
        left_out = 0
        for window in chosen:
            image = _as_learned(region, window)
            logs = log_density(image)
            known = np.isfinite(logs)  # a flow may have no mass on a window
            left_out += not known.all()
            here = region.inside(window)[known]
            count[here] += 1
            nll[here] -= logs[known]
            even[here] += np.log(max(image.footprint.sum(), 1))
            done += 1
            stage(done, total)
        if count.any():
            found[role] = _mean(region, nll, even, count, len(chosen) - left_out, left_out)
    return found


def _as_learned(region: Region, window: Window) -> Image:
    """A window whose occurrences lie where a model is shown them: exactly, or in their cells."""
    image = read_image(region, window)
    if region.settings.positions == "exact":
        return image
    spread = np.random.default_rng([window.row, window.col]).random(image.points.shape)
    return replace(image, points=np.floor(image.points) + spread)


def _mean(
    region: Region,
    nll: NDArray[np.float64],
    even: NDArray[np.float64],
    count: NDArray[np.float64],
    windows: int,
    left_out: int,
) -> Likelihood:
    """Sums (N,) over the windows of each occurrence: it counts once, with their mean."""
    seen = count > 0
    each = nll[seen] / count[seen]
    low, high, tiles = tile_interval(each, region.split.tile_of_points(region.points[seen]))
    return Likelihood(
        nll=float(each.mean()),
        low=low,
        high=high,
        even=float((even[seen] / count[seen]).mean()),
        occurrences=int(seen.sum()),
        windows=windows,
        windows_left_out=left_out,
        tiles=tiles,
    )
