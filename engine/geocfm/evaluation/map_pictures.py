"""Maps as pictures: the density with its occurrences and targets, and where networks disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import numpy as np
import rasterio
import shapely
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from rasterio.enums import Resampling
from shapely.geometry.base import BaseGeometry

from geocfm.data.split import TEST, VALIDATION, Split
from geocfm.evaluation.figure_text import literal
from geocfm.evaluation.plots import DPI, HELD_OUT, VALIDATED, save_figure
from geocfm.geo.crs import crs_name
from geocfm.geo.grid import Grid

WIDEST = 900  # pixels of a map picture; larger rasters are read coarser
WIDE = 0.6  # height over width of a map that counts as wide
LEAST_SHOWN = 0.1  # of the mean density: below it, how far below is no matter
LEAST_SPAN = 10.0  # the scale reaches at least so many times the mean
OUTLINE = "#00e5ff"

Edge = tuple[tuple[int, int], tuple[int, int]]


def plot_map(
    path: Path,
    raster: Path,
    scale: float,
    grid: Grid,
    points: NDArray[np.float64],
    split: Split,
    title: str,
    provenance: str,
    targets: Mapping[int, BaseGeometry] | None = None,
) -> None:
    """The map (values times ``scale``) with its occurrences; held-out tiles are outlined.

    targets: outlines by rank, in (column, row) of the grid.
    """
    roles = split.role_of_points(points)
    values = _read_coarse(raster, 1, grid) * scale
    valid = values[np.isfinite(values)]
    highest = float(np.percentile(valid, 99)) if valid.size else 1.0
    figure, axes = _map_figure(grid, 6.6)
    image = _show(
        axes,
        grid,
        np.maximum(values, LEAST_SHOWN),
        "viridis",
        LogNorm(LEAST_SHOWN, max(highest, LEAST_SPAN)),
    )
    _scale_beside(figure, axes, image, grid, "relative density, 1 = regional mean", "max")
    axes.add_collection(LineCollection(_outer_edges(split), colors=HELD_OUT, lw=1.1, ls="--"))
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
    axes.plot([], [], color=HELD_OUT, lw=1.1, ls="--", label="held-out tiles")
    for rank, outline in (targets or {}).items():
        _outline(axes, rank, outline)
    if targets:
        axes.plot([], [], color=OUTLINE, lw=1.0, label="targets, by rank")
    axes.set_title(title, fontsize=10)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    save_figure(figure, path, provenance)


def band_picture(
    raster: Path, band: int, grid: Grid, label: str, mean: float | None = None
) -> bytes:
    """A band of a map as a PNG, in colours that are not those of the density.

    mean: of the density in band 1, if the picture is to fade away where that is far below it:
    networks that disagree there whether it is a hundredth or a thousandth tell nothing.
    """
    values = _read_coarse(raster, band, grid)
    seen = np.isfinite(values).astype(np.float64)
    if mean is not None:
        density = np.maximum(_read_coarse(raster, 1, grid) / mean, LEAST_SHOWN)
        fading = np.log10(density / LEAST_SHOWN) / -np.log10(LEAST_SHOWN)
        seen[seen > 0] = np.clip(fading, 0, 1)[seen > 0]  # 0 at LEAST_SHOWN, 1 at the mean
    shown = values[seen > 0]
    highest = float(np.percentile(shown, 99)) if shown.size else 1.0
    figure, axes = _map_figure(grid, 6.0)
    axes.set_facecolor("0.93")
    image = _show(axes, grid, values, "magma", Normalize(0, highest or 1.0))
    image.set_alpha(seen)
    _scale_beside(figure, axes, image, grid, label, "max")
    held = BytesIO()
    figure.savefig(held, dpi=DPI, bbox_inches="tight", format="png")
    return held.getvalue()


def _map_figure(grid: Grid, width: float) -> tuple[Figure, Axes]:
    """A figure of so many inches, as tall as the grid needs, with axes in the grid's cells."""
    height = min(max(width * grid.height / grid.width * 0.82, 0.45 * width), 1.36 * width)
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    _world_ticks(axes, grid)
    return figure, axes


def _show(
    axes: Axes, grid: Grid, values: NDArray[np.float32], colours: str, norm: Normalize
) -> AxesImage:
    extent = (0, grid.width, grid.height, 0)
    image = axes.imshow(values, cmap=colours, norm=norm, interpolation="nearest", extent=extent)
    axes.set(xlim=(0, grid.width), ylim=(grid.height, 0))
    return image


def _scale_beside(
    figure: Figure, axes: Axes, image: AxesImage, grid: Grid, label: str, extend: str
) -> None:
    wide = grid.height / grid.width < WIDE  # then there is no room for the words along its side
    figure.colorbar(
        image,
        ax=axes,
        label=label,
        extend=extend,
        shrink=0.6 if wide else 0.8,
        aspect=40 if wide else 20,
        location="bottom" if wide else "right",
        format="%g",
    )


def _outer_edges(split: Split) -> list[Edge]:
    """Edges of the held-out tiles, but for those between two of them."""
    edges: Counter[Edge] = Counter()
    for tile, role in split.tiles():
        if role == TEST:
            left, right, top, bottom = tile.col, tile.col_stop, tile.row, tile.row_stop
            edges[((left, top), (right, top))] += 1
            edges[((left, bottom), (right, bottom))] += 1
            edges[((left, top), (left, bottom))] += 1
            edges[((right, top), (right, bottom))] += 1
    return [edge for edge, often in edges.items() if often == 1]


def _outline(axes: Axes, rank: int, outline: BaseGeometry) -> None:
    """The target's rings, and its rank beside it."""
    polygons = [part for part in shapely.get_parts(outline) if part.geom_type == "Polygon"]
    rings = [np.asarray(ring.coords) for one in polygons for ring in (one.exterior, *one.interiors)]
    axes.add_collection(LineCollection(rings, colors=OUTLINE, lw=1.0))
    corners = np.concatenate(rings)
    axes.annotate(
        str(rank),
        tuple(corners[corners[:, 0].argmax()]),  # its easternmost point
        (2, 0),
        textcoords="offset points",
        va="center",
        color="black",
        fontsize=8,
        fontweight="bold",
        path_effects=[withStroke(linewidth=2.2, foreground="white")],
        annotation_clip=True,
    )


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
    """Ticks in the CRS's coordinates, as far apart both ways; a rotated grid keeps its cells."""
    if grid.is_rotated:
        axes.set(xlabel="column", ylabel="row")
        return
    scale, unit = (1000.0, "km") if grid.unit == "m" else (1.0, grid.unit)
    ends = grid.to_world(np.array([[0.0, 0.0], [grid.width, grid.height]])) / scale
    longest = float(np.abs(ends[1] - ends[0]).max())
    step = float(np.diff(MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(0, longest)[:2])[0])
    for axis, length, (first, last) in (
        (axes.xaxis, grid.width, ends[:, 0]),
        (axes.yaxis, grid.height, ends[:, 1]),
    ):
        low, high = sorted((float(first), float(last)))
        inside = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
        axis.set_ticks(
            [(tick - first) / (last - first) * length for tick in inside],
            [f"{tick:.7g}" for tick in inside],
        )
    name, unit = literal(crs_name(grid.crs)), literal(unit)
    axes.set(xlabel=f"x [{unit}], {name}", ylabel=f"y [{unit}]")
