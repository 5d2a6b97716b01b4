"""Pictures of the synthetic benchmark: draws beside the truth, densities beside the oracles."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from geocfm.data.synthetic import SyntheticImage
from geocfm.evaluation.benchmark.methods import HEAD, METHODS, ORACLES
from geocfm.evaluation.benchmark.result_files import MethodResult, Pictures
from geocfm.evaluation.benchmark.tables import over_images
from geocfm.evaluation.plots import HELD_OUT, TRAINED, save_figure
from geocfm.versions import software_versions

LOWEST, HIGHEST = 0.1, 100.0  # relative density that the colours tell apart
COLOURS = "magma"
SCALE_LABEL = "density relative to the image's mean (logarithmic; the same in all panels)"
PANEL, GAP, TITLE, SCALE = 1.75, 0.07, 0.36, 0.75  # inches
COLUMNS = 7
DENSITY_IMAGES = 2  # of the pictured ones; the next is for the picture of all methods
LABEL: dict[str, Any] = {
    "fontsize": 7,
    "bbox": {"fc": "white", "ec": "none", "alpha": 0.8, "pad": 1.5},
}
CURVE_COLOURS = (
    *("#1b9e77", "#8a5a2b", "#e377c2", "#4f9fd9"),
    *("#111d5e", "#999999", "#ff7f0e", "#17becf"),
)
CURVE_STYLES: dict[str, dict[str, Any]] = {
    "geocfm": {"color": HELD_OUT, "lw": 2.4},
    HEAD: {"color": HELD_OUT, "lw": 1.2, "ls": "--"},
    "rf": {"color": "#7b5ea7", "lw": 1.2},
    "rf-paper": {"color": "#7b5ea7", "lw": 1.2, "ls": "--"},
    "gbdt": {"color": "#bcbd22", "lw": 1.2},
    "gbdt-paper": {"color": "#bcbd22", "lw": 1.2, "ls": "--"},
    "latent": {"color": "black", "lw": 1.6},
    "bayes": {"color": "black", "lw": 1.6, "ls": "--"},
}
SHOWN_FIRST = (*ORACLES, "geocfm", "unet-density")

Points = NDArray[np.floating]


def draw_figures(
    folder: Path,
    images: Sequence[SyntheticImage],
    results: Mapping[str, MethodResult],
    pictures: Mapping[str, Pictures],
) -> Iterator[tuple[Path, str]]:
    """Write the figures that can be made of these methods; gives each path and what it shows."""
    if not pictures:
        return
    keys = [key for key in SHOWN_FIRST if key in pictures]
    keys += [key for key in METHODS if key in pictures and key not in keys]
    shown = {key: (results[key], pictures[key]) for key in keys}
    provenance = _provenance(results)
    if "geocfm" in shown:
        path = folder / "draws.png"
        _plot_draws(path, images, shown["geocfm"][1], provenance)
        yield path, "deposits beside four draws of GeoCFM (paper, Fig. 4)"
    path = folder / "densities.png"
    _plot_densities(path, images, shown, provenance)
    yield path, "the density of every method beside the oracles (paper, Fig. 5)"
    path = folder / "all-methods.png"
    _plot_all(path, images, shown, provenance)
    yield path, "density and one draw of every method on one image"
    curves = {
        key: result
        for key, result in results.items()
        if "capture_curve" in result.method and over_images(result.values["capture"]).count
    }
    if curves:
        path = folder / "capture.png"
        _plot_capture(path, curves, provenance)
        yield path, "the mean capture curves of all methods beside the oracles"


def _plot_draws(
    path: Path, images: Sequence[SyntheticImage], flow: Pictures, provenance: str
) -> None:
    """A row for each image: the deposits, then draws, over the magnetics."""
    count, draws = flow.draws.shape[:2]
    figure, panels = _sheet(1 + draws, [TITLE / 2, *[0.0] * (count - 1)], scale=0.0)
    for row, (image, drawn) in enumerate(zip(images, flow.draws, strict=False)):
        for col, points in enumerate((image.points, *drawn)):
            axes = panels[row][col]
            _field(axes, image.magnetics)
            _dots(axes, points, HELD_OUT if col == 0 else TRAINED)
            if row == 0:
                title = f"GeoCFM, draw {col}" if col else "true deposits, magnetics"
                axes.set_title(title, fontsize=8)
    save_figure(figure, path, provenance)


def _plot_densities(
    path: Path,
    images: Sequence[SyntheticImage],
    shown: Mapping[str, tuple[MethodResult, Pictures]],
    provenance: str,
) -> None:
    """Block by block an image: its magnetics with the deposits, and each method's density."""
    count = min(DENSITY_IMAGES, len(next(iter(shown.values()))[1].density))
    rows = -(-(1 + len(shown)) // COLUMNS)
    figure, panels = _sheet(min(COLUMNS, 1 + len(shown)), [TITLE] * rows * count)
    for number in range(count):
        block = [axes for row in panels[number * rows : (number + 1) * rows] for axes in row]
        _observed(block[0], images[number])
        for axes, (result, pictures) in zip(block[1:], shown.values(), strict=False):
            _density(axes, pictures.density[number], result, number)
    save_figure(figure, path, provenance)


def _plot_all(
    path: Path,
    images: Sequence[SyntheticImage],
    shown: Mapping[str, tuple[MethodResult, Pictures]],
    provenance: str,
) -> None:
    """One image: for each method its density, and below it one draw."""
    number = len(next(iter(shown.values()))[1].density) - 1
    image = images[number]
    rows = -(-(1 + len(shown)) // COLUMNS)
    columns = min(COLUMNS, 1 + len(shown))
    figure, panels = _sheet(columns, [TITLE, 0.0] * rows)
    _observed(panels[0][0], image)
    _field(panels[1][0], image.geochemistry)
    panels[1][0].text(0.03, 0.03, "geochemistry", transform=panels[1][0].transAxes, **LABEL)
    for place, (result, pictures) in enumerate(shown.values(), start=1):
        row, col = divmod(place, columns)
        _density(panels[2 * row][col], pictures.density[number], result, number)
        _field(panels[2 * row + 1][col], image.magnetics)
        _dots(panels[2 * row + 1][col], pictures.draws[number, 0], TRAINED)
    save_figure(figure, path, provenance)


def _plot_capture(path: Path, results: Mapping[str, MethodResult], provenance: str) -> None:
    """Captured share by the best share of the area, mean over the test images; best first."""

    def area_under(result: MethodResult) -> float:
        return over_images(result.values["capture"]).mean

    figure = Figure(figsize=(7.6, 4.6))
    axes = figure.add_subplot()
    colours = iter(CURVE_COLOURS)
    for key, result in results.items():
        curve = result.method["capture_curve"]
        axes.plot(
            curve["area_share"],
            curve["captured_share"],
            label=f"{result.title} ({area_under(result):.3f})",
            **(CURVE_STYLES[key] if key in CURVE_STYLES else {"color": next(colours), "lw": 1.2}),
        )
    axes.set(xlim=(0, 1), ylim=(0, 1.01))
    axes.set(xlabel="best share of the area", ylabel="captured share of the deposits")
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(color="0.9", lw=0.6)
    lines, labels = axes.get_legend_handles_labels()
    ranked = sorted(range(len(lines)), key=lambda n: -area_under(list(results.values())[n]))
    axes.legend(
        [lines[n] for n in ranked],
        [labels[n] for n in ranked],
        title="area under the curve",
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        fontsize=8,
        title_fontsize=8,
        frameon=False,
    )
    save_figure(figure, path, provenance)


def _sheet(
    columns: int, headroom: Sequence[float], scale: float = SCALE
) -> tuple[Figure, list[list[Axes]]]:
    """Square panels in rows with room for titles above, and the colours' scale below them."""
    width = columns * (PANEL + GAP) - GAP
    height = sum(PANEL + GAP + room for room in headroom) - GAP + scale
    figure = Figure(figsize=(width, height))
    panels = []
    top = height
    for room in headroom:
        top -= room + PANEL
        row = []
        for col in range(columns):
            left = col * (PANEL + GAP)
            axes = figure.add_axes(
                (left / width, top / height, PANEL / width, PANEL / height), frameon=False
            )
            axes.set_axis_off()
            row.append(axes)
        panels.append(row)
        top -= GAP
    if scale:
        bar_width = min(width, 6.0)
        place = ((width - bar_width) / 2 / width, 0.45 / height, bar_width / width, 0.12 / height)
        bar = figure.colorbar(
            ScalarMappable(LogNorm(LOWEST, HIGHEST), COLOURS),
            cax=figure.add_axes(place),
            orientation="horizontal",
            extend="both",
            ticks=[0.1, 1, 10, 100],
        )
        bar.ax.set_xticklabels(["0.1", "1", "10", "100"])
        bar.set_label(SCALE_LABEL, fontsize=8)
        bar.ax.tick_params(labelsize=8)
    return figure, panels


def _field(axes: Axes, field: NDArray[np.floating]) -> None:
    """A standardised field in grey, a little pale so that points stand out."""
    size = len(field)
    axes.imshow(field, cmap="gray", vmin=-2.5, vmax=2.5, extent=(0, size, size, 0), alpha=0.75)
    axes.set(xlim=(0, size), ylim=(size, 0))  # a point on the edge does not widen it


def _dots(axes: Axes, points: Points, colour: str) -> None:
    axes.scatter(points[:, 0], points[:, 1], s=1.6, c=colour, linewidths=0)


def _observed(axes: Axes, image: SyntheticImage) -> None:
    _field(axes, image.magnetics)
    _dots(axes, image.points, HELD_OUT)
    axes.set_title("magnetics\nand true deposits", fontsize=7.5)


def _density(axes: Axes, density: NDArray[np.float32], result: MethodResult, number: int) -> None:
    size = len(density)
    axes.imshow(
        np.maximum(density * density.size, LOWEST),
        cmap=COLOURS,
        norm=LogNorm(LOWEST, HIGHEST),
        interpolation="nearest",
        extent=(0, size, size, 0),
    )
    nll = result.values["nll"][number]
    said = "NLL –" if nll is None else f"NLL {float(nll):.2f}".replace("inf", "infinite")
    axes.set_title(f"{result.title}\n{said}", fontsize=7.5)


def _provenance(results: Mapping[str, MethodResult]) -> str:
    settings = next(iter(results.values())).settings
    return json.dumps(
        {"benchmark": settings.model_dump(mode="json"), "versions": software_versions()}
    )
