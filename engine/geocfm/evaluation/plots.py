"""Pictures a geologist reads: the capture curve, and draws beside what is known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from geocfm.evaluation.capture import CaptureCurve
from geocfm.geo.writing import atomic_path

DPI = 150
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
