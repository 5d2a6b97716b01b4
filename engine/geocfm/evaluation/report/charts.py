"""The curves of a report as SVG: drawn from its content alone, with text as shapes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, PercentFormatter

from geocfm.evaluation.calibration import Calibration
from geocfm.evaluation.plots import HELD_OUT, OTHERS, TRAINED, VALIDATED
from geocfm.evaluation.prediction_area import PredictionArea
from geocfm.evaluation.rates import RateCurve
from geocfm.evaluation.report.content import Baselines, TrainingHistory

MANY_DECADES = 10**2.5  # of densities, between which there is no room for more than their powers
SIZE = (5.0, 3.9)  # inches
CHANCE = "0.55"
STYLE: Any = {
    "svg.fonttype": "path",  # looks the same wherever it is opened
    "svg.hashsalt": "geocfm",  # the same content gives the same file
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "0.4",
    "axes.grid": True,
    "grid.color": "0.9",
    "legend.edgecolor": "none",
    "legend.framealpha": 0.85,
    "legend.fontsize": 8.5,
}
SCREE = (0.5, 99.5)  # percentiles of the losses that a picture shows: the first may be huge


class Chart:
    """A figure in the making, and its SVG in the end."""

    def __init__(self) -> None:
        self._figure = Figure(figsize=SIZE, layout="constrained")
        self.axes: Axes = self._figure.add_subplot()
        self.svg = b""

    def save(self) -> None:
        """Draw it."""
        buffer = io.BytesIO()
        self._figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        self.svg = buffer.getvalue()


@contextmanager
def drawing() -> Iterator[Chart]:
    """A chart in the style of all of them; it is drawn when the block ends."""
    with matplotlib.rc_context(STYLE):
        chart = Chart()
        yield chart
        chart.save()


def training_chart(history: TrainingHistory) -> bytes:
    """Training and validation loss over the iterations, and the moment that was kept."""
    with drawing() as chart:
        axes = chart.axes
        axes.plot(
            history.loss.iteration, history.loss.value, color=TRAINED, lw=1, label="training tiles"
        )
        shown = [*history.loss.value, *history.validation.value]
        if history.validation.iteration:
            axes.plot(
                history.validation.iteration,
                history.validation.value,
                color=VALIDATED,
                lw=1.6,
                marker="o",
                ms=2.5,
                label="validation tiles",
            )
        axes.axvline(
            history.best_iteration,
            color="0.3",
            lw=1,
            ls="--",
            label=f"kept: iteration {history.best_iteration:,}",
        )
        low, high = np.percentile(shown, SCREE)
        room = 0.06 * max(high - low, 1e-6)
        axes.set(xlabel="iteration", ylabel="loss", ylim=(low - room, high + room))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.legend(loc="upper right")
    return chart.svg


def rates_chart(prediction: RateCurve | None, success: RateCurve | None) -> bytes:
    """Prediction rate and success rate with their bands, against chance."""
    with drawing() as chart:
        axes = chart.axes
        if success is not None:
            _rate(axes, success, TRAINED, f"training tiles ({success.occurrences:,})")
        if prediction is not None:
            _rate(axes, prediction, HELD_OUT, f"held-out tiles ({prediction.occurrences:,})")
        _capture_axes(axes)
        axes.legend(loc="lower right", title="occurrences on", alignment="left")
    return chart.svg


def cross_validation_chart(pooled: RateCurve) -> bytes:
    """The prediction rate pooled over the folds."""
    with drawing() as chart:
        _rate(chart.axes, pooled, HELD_OUT, f"all folds ({pooled.occurrences:,} occurrences)")
        _capture_axes(chart.axes)
        chart.axes.legend(loc="lower right")
    return chart.svg


def baselines_chart(prediction: RateCurve, baselines: Baselines) -> bytes:
    """Prediction rates of other methods beside the model's."""
    with drawing() as chart:
        axes = chart.axes
        for number, row in enumerate(baselines.rows):
            style = "-" if number < len(OTHERS) else ":"
            colour = OTHERS[number % len(OTHERS)]
            axes.plot(
                row.area_share, row.captured_share, color=colour, ls=style, lw=1.1, label=row.title
            )
        axes.plot(
            prediction.area_share, prediction.captured, color=HELD_OUT, lw=2.2, label="GeoCFM"
        )
        _capture_axes(axes)
        handles, labels = axes.get_legend_handles_labels()
        first = labels.index("GeoCFM")
        order = [first, *(number for number in range(len(labels)) if number != first)]
        shown = [handles[number] for number in order], [labels[number] for number in order]
        axes.legend(*shown, loc="lower right", ncols=2)
    return chart.svg


def prediction_area_chart(found: PredictionArea) -> bytes:
    """Occurrences and area over the threshold, and where they cross."""
    with drawing() as chart:
        axes = chart.axes
        axes.plot(found.threshold, found.captured, color=HELD_OUT, lw=2, label="occurrences (left)")
        axes.plot(found.threshold, found.outside, color=TRAINED, lw=2, label="area (right)")
        place = (found.crossing, found.prediction_rate)
        axes.plot([found.crossing] * 2, [0, place[1]], color="0.3", lw=0.9, ls=":")
        axes.plot(*place, marker="o", ms=6, mfc="white", mec="0.2", mew=1.4)
        right = place[0] < np.sqrt(_shown(found)[0] * _shown(found)[1])
        axes.annotate(
            f"{100 * found.prediction_rate:.0f} % of occurrences\n"
            f"in {100 * found.occupied_area:.0f} % of the area",
            place,
            (14 if right else -14, 0),
            textcoords="offset points",
            ha="left" if right else "right",
            va="center",
            fontsize=8.5,
            # a curve may run behind it
            bbox={"boxstyle": "round,pad=0.2", "fc": "white", "ec": "none", "alpha": 0.85},
        )
        axes.set(
            xscale="log",
            xlim=_shown(found),
            ylim=(0, 1.01),
            xlabel="relative density, as a threshold",
            ylabel="share of occurrences at or above it",
        )
        low, high = _shown(found)
        between = (1.0, 2.0, 5.0) if high / low < MANY_DECADES else (1.0,)
        axes.xaxis.set_major_locator(LogLocator(10, between, numticks=12))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        areas = axes.twinx()
        areas.set(ylim=(1, -0.01), ylabel="share of the area at or above it")
        areas.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        areas.spines["right"].set_visible(True)
        areas.grid(visible=False)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2)
    return chart.svg


def _shown(found: PredictionArea) -> tuple[float, float]:
    """Thresholds between which something happens to either curve."""
    moving = [
        threshold
        for threshold, inside, below in zip(
            found.threshold, found.captured, found.outside, strict=True
        )
        if below > 0.01 and (inside > 0 or below < 0.999)
    ]
    low, high = (moving[0], moving[-1]) if moving else (found.crossing, found.crossing)
    return min(low, found.crossing) / 1.2, max(high, found.crossing) * 1.2


def calibration_chart(found: Calibration, *, banded: bool) -> bytes:
    """Observed against nominal shares, before and after the temperature."""
    with drawing() as chart:
        axes, before = chart.axes, found.before
        axes.plot([0, 1], [0, 1], color=CHANCE, ls="--", lw=1, label="as it should be")
        if banded and found.low is not None and found.high is not None:
            axes.fill_between(before.nominal, found.low, found.high, color=HELD_OUT, alpha=0.15)
        axes.plot(
            before.nominal,
            before.observed,
            color=HELD_OUT,
            lw=2,
            label=f"the map ({100 * before.distance:.0f} points away)",
        )
        after = found.after
        if after is not None:
            axes.plot(
                after.nominal,
                after.observed,
                color="0.25",
                lw=1.4,
                ls="-.",
                label=f"at temperature {after.temperature:.2f} "
                f"({100 * after.distance:.0f} points away)",
            )
        _shares(
            axes,
            "share of the map's density in its densest region",
            "share of held-out occurrences inside",
        )
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2)
    return chart.svg


def _rate(axes: Axes, rates: RateCurve, colour: str, label: str) -> None:
    if rates.enough_tiles and rates.low is not None and rates.high is not None:
        axes.fill_between(rates.area_share, rates.low, rates.high, color=colour, alpha=0.15, lw=0)
    axes.plot(rates.area_share, rates.captured, color=colour, lw=2, label=label)


def _capture_axes(axes: Axes) -> None:
    axes.plot([0, 1], [0, 1], color=CHANCE, ls="--", lw=1, label="chance")
    _shares(axes, "share of the area, most prospective first", "share of occurrences inside")


def _shares(axes: Axes, across: str, up: str) -> None:
    axes.set(xlim=(0, 1), ylim=(0, 1.01), xlabel=across, ylabel=up)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
