"""Pictures a geologist reads: the capture curve, the map with its occurrences, draws."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
import rasterio
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray
from rasterio.enums import Resampling

from geocfm.data.split import TEST, VALIDATION, Split
from geocfm.evaluation.capture import CaptureCurve
from geocfm.geo.grid import Grid
from geocfm.geo.writing import atomic_path

DPI = 150
WIDEST = 900  # pixels of a map picture; larger rasters are read coarser
WIDE = 0.6  # height over width of a map that counts as wide
HELD_OUT, TRAINED, VALIDATED = "#d1495b", "#30638e", "#e08e29"
OTHERS = ("#2a9d8f", "#e9a03b", "#7b5ea7", "#6b705c", "#c77dba", "#4f9fd9")  # of other methods


def save_figure(figure: Figure, path: Path, provenance: str) -> None:
    """A PNG that says where it comes from."""
    with atomic_path(path) as temporary:
        said = {"Description": provenance}
        figure.savefig(temporary, dpi=DPI, bbox_inches="tight", metadata=said)


def plot_capture(
    path: Path,
    test: CaptureCurve,
    train: CaptureCurve,
    provenance: str,
    others: Mapping[str, CaptureCurve] | None = None,
) -> None:
    """Prediction rate (held-out tiles) and success rate (training tiles) against chance.

    others: held-out curves of other methods by their names, thin.
    """
    figure = Figure(figsize=(5.6, 4.6))
    axes = figure.add_subplot()
    whose = "GeoCFM, " if others else ""
    for curve, name, colour in ((test, "held-out", HELD_OUT), (train, "training", TRAINED)):
        if curve.count:
            area, captured = curve.points()
            said = f"{curve.count} occurrences, area {curve.under_curve():.2f}"
            if others:
                said = f"{curve.count} occurrences, {_at_ten(curve)}"
            axes.plot(area, captured, color=colour, lw=2, label=f"{whose}{name} tiles ({said})")
    for number, (name, curve) in enumerate((others or {}).items()):
        if curve.count:
            label = f"{name}, held-out ({_at_ten(curve)})"
            style = "-" if number < len(OTHERS) else ":"
            colour = OTHERS[number % len(OTHERS)]
            axes.plot(*curve.points(), color=colour, lw=1, ls=style, label=label, zorder=1.5)
    axes.plot([0, 1], [0, 1], color="0.6", ls="--", lw=1, label="chance")
    if test.count:
        at_ten = test.captured(0.1)
        axes.plot([0.1, 0.1], [0, at_ten], color=HELD_OUT, lw=0.8, ls=":")
        if not others:  # which would run through the words
            axes.annotate(
                f"{100 * at_ten:.0f} % in 10 % of the area",
                (0.1, at_ten),
                (0.16, at_ten - 0.08),
                color=HELD_OUT,
            )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0))
    axes.set(
        xlabel="share of the area, most prospective first",
        ylabel="share of occurrences inside",
        xlim=(0, 1),
        ylim=(0, 1.01),
    )
    if others:  # so many that they would hide the curves
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize="small")
    else:
        axes.legend(loc="lower right", frameon=False)
    axes.grid(alpha=0.2)
    save_figure(figure, path, provenance)


def _at_ten(curve: CaptureCurve) -> str:
    return f"{100 * curve.captured(0.1):.0f} % in 10 %, area {curve.under_curve():.2f}"


def plot_map(
    path: Path,
    raster: Path,
    scale: float,
    grid: Grid,
    points: NDArray[np.float64],
    split: Split,
    title: str,
    provenance: str,
) -> None:
    """The map (values times ``scale``) with its occurrences; held-out tiles are outlined."""
    roles = split.role_of_points(points)
    values = _read_coarse(raster, 1, grid) * scale
    valid = values[np.isfinite(values)]
    highest = max(float(np.percentile(valid, 99)), 1.0) if valid.size else 1.0
    tall = grid.height / grid.width
    figure = Figure(figsize=(6.6, min(max(6.6 * tall * 0.82, 3.0), 9.0)), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(
        values,
        cmap="viridis",
        vmin=0,
        vmax=highest,
        interpolation="nearest",
        extent=(0, grid.width, grid.height, 0),
    )
    wide = tall < WIDE  # then there is no room for the words along the scale's side
    figure.colorbar(
        image,
        ax=axes,
        label="relative density, 1 = regional mean",
        extend="max",
        shrink=0.6 if wide else 0.8,
        aspect=40 if wide else 20,
        location="bottom" if wide else "right",
    )
    for tile, role in split.tiles():
        if role == TEST:
            axes.add_patch(
                Rectangle(
                    (tile.col, tile.row),
                    tile.width,
                    tile.height,
                    fill=False,
                    ec=HELD_OUT,
                    lw=0.9,
                    ls="--",
                )
            )
    for shown, colour, marker, size, name in (
        ((roles != TEST) & (roles != VALIDATION), "white", "o", 9, "training occurrences"),
        (roles == VALIDATION, VALIDATED, "s", 13, "validation occurrences"),
        (roles == TEST, HELD_OUT, "^", 26, "held-out occurrences"),
    ):
        chosen = points[shown]
        axes.scatter(
            chosen[:, 0],
            chosen[:, 1],
            s=size,
            c=colour,
            marker=marker,
            edgecolors="black",
            linewidths=0.4,
            label=f"{name} ({len(chosen)})",
        )
    axes.plot([], [], color=HELD_OUT, lw=0.9, ls="--", label="held-out tiles")
    _world_ticks(axes, grid)
    axes.set(xlim=(0, grid.width), ylim=(grid.height, 0))
    axes.set_title(title, fontsize=10)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    save_figure(figure, path, provenance)


def band_picture(raster: Path, band: int, grid: Grid, label: str) -> bytes:
    """A band of a raster on the grid as a PNG, in colours that are not those of the density."""
    values = _read_coarse(raster, band, grid)
    valid = values[np.isfinite(values)]
    highest = float(np.percentile(valid, 99)) if valid.size else 1.0
    tall = grid.height / grid.width
    figure = Figure(figsize=(6.0, min(max(6.0 * tall * 0.82, 2.6), 8.0)), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(
        values,
        cmap="magma",
        vmin=0,
        vmax=highest or 1.0,
        interpolation="nearest",
        extent=(0, grid.width, grid.height, 0),
    )
    wide = tall < WIDE
    figure.colorbar(
        image, ax=axes, label=label, extend="max", location="bottom" if wide else "right"
    )
    _world_ticks(axes, grid)
    held = BytesIO()
    figure.savefig(held, dpi=DPI, bbox_inches="tight", format="png")
    return held.getvalue()


def _read_coarse(raster: Path, band: int, grid: Grid) -> NDArray[np.float32]:
    """A band, no larger than a picture needs."""
    coarser = max(1.0, max(grid.height, grid.width) / WIDEST)
    shape = (max(1, int(grid.height / coarser)), max(1, int(grid.width / coarser)))
    with rasterio.open(raster) as source:
        values: NDArray[np.float32] = source.read(
            band, out_shape=shape, resampling=Resampling.average
        )
    return values


def _world_ticks(axes: Axes, grid: Grid) -> None:
    """Ticks in the CRS's coordinates; a rotated grid keeps its column and row numbers."""
    if grid.is_rotated:
        axes.set(xlabel="column", ylabel="row")
        return
    scale, unit = (1000.0, "km") if grid.unit == "m" else (1.0, grid.unit)
    for axis, length, index in ((axes.xaxis, grid.width, 0), (axes.yaxis, grid.height, 1)):
        ends = grid.to_world(np.array([[0.0, 0.0], [grid.width, grid.height]]))[:, index] / scale
        ticks = MaxNLocator(5).tick_values(*sorted(ends))
        inside = [t for t in ticks if min(ends) <= t <= max(ends)]
        axis.set_ticks(
            [(t - ends[0]) / (ends[1] - ends[0]) * length for t in inside],
            [f"{t:g}" for t in inside],
        )
    axes.set(xlabel=f"x [{unit}]", ylabel=f"y [{unit}]")


def plot_draws(
    path: Path,
    background: NDArray[np.float32],
    truth: NDArray[np.float64],
    draws: list[NDArray[np.float64]],
    provenance: str,
) -> None:
    """Occurrences of one window beside draws for it. Points in [0, 1]^2; background (P, P)."""
    figure = Figure(figsize=(2.4 * (1 + len(draws)), 2.6))
    panels = [("known", truth), *((f"draw {n + 1}", draw) for n, draw in enumerate(draws))]
    size = background.shape[0]
    for number, (name, points) in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), number + 1)
        axes.imshow(background, cmap="gray", extent=(0, size, size, 0))
        axes.scatter(
            points[:, 0] * size, points[:, 1] * size, s=5, c=TRAINED if number else HELD_OUT
        )
        axes.set(title=name, xticks=[], yticks=[], xlim=(0, size), ylim=(size, 0))
    save_figure(figure, path, provenance)
