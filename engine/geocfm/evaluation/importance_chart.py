"""The bar chart of which layers matter."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import textwrap

from matplotlib.figure import Figure

from geocfm.evaluation.figure_text import literal
from geocfm.evaluation.importance import Importance

MOST_BARS = 30
WIDTH, BAR_HEIGHT, LINE_HEIGHT, MARGINS = 6.2, 0.32, 0.17, 1.3  # inches
LONGEST_NAME = 32  # letters
MATTERS, UNTOLD = "#5b8db8", "#cdd6de"  # whether the interval lies above 0


def importance_figure(importance: Importance) -> Figure:
    """Horizontal bars with their intervals, the layer that matters most on top.

    Pale bars are those that cannot be told from 0. Without intervals, or any layer, the picture
    says why.
    """
    shown = importance.layers[:MOST_BARS]
    why = textwrap.wrap(importance.why_no_interval(), 70)
    height = MARGINS + BAR_HEIGHT * max(len(shown), 2) + LINE_HEIGHT * len(why)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    if not shown:
        said = textwrap.fill(importance.sentence(), 60)
        axes.text(0.5, 0.5, said, ha="center", va="center", transform=axes.transAxes)
        axes.set_axis_off()
        return figure
    places = range(len(shown))
    axes.barh(
        places,
        [layer.loss_nats for layer in shown],
        color=[MATTERS if layer.told else UNTOLD for layer in shown],
        height=0.7,
    )
    for place, layer in zip(places, shown, strict=True):
        if layer.interval is not None:
            axes.plot(layer.interval, [place, place], color="0.2", lw=1.4)
    axes.axvline(0, color="0.4", lw=0.8)
    axes.set_yticks(places, [literal(_short(layer.layer)) for layer in shown])
    axes.invert_yaxis()
    axes.set_xlabel("\n".join(["loss without the layer [nats per occurrence]", *why]))
    tiles = f"{shown[0].tiles} {'tile' if shown[0].tiles == 1 else 'tiles'}"
    counted = f"{shown[0].occurrences} {importance.whose} occurrences on {tiles}"
    left_out = len(importance.layers) - len(shown)
    more = f"; {left_out} lesser layers not shown" if left_out else ""
    axes.set_title(f"Which layers matter ({counted}{more})", fontsize=10)
    axes.grid(axis="x", alpha=0.2)
    axes.set_axisbelow(True)
    return figure


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 3]}..."
