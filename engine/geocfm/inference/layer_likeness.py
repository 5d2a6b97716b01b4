"""Whether the layers given to a model are like those it learned from, or stand for one another.

Told from a sample of cells by mean and standard deviation alone, which the model's card has. Other
regions differ in these, other quantities and units more: on halves, quarters and ninths of the
Murchison and of California no layer seems exchanged that is not, nor but one (elevation, in a
ninth) unlike itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from geocfm.data.encoding import data_mask
from geocfm.geo.area import Area
from geocfm.geo.grid import Window
from geocfm.inference.predictor import Layers
from geocfm.model.checkpoint import LayerCard

BLOCKS = 6  # that are looked at along each side of the region
BLOCK = 32  # cells along the side of one
FEWEST_CELLS = 100  # with data; of fewer nothing is said
NARROWEST = 0.1  # of training's spread: a part of a region may hardly vary

# distances, see `_distance`: two distributions of one width lie 1.6 apart at 3.6 widths, and one
# 9 times as wide as another about 0.8
UNLIKE = 2.0
GAIN = 1.0  # of an exchange that brings layers nearer to others of the region of training
TAKEN_FOR = 1.0  # at most so far is a layer then from the one that it is taken for
CLEAR = 0.3  # and a smaller gain is enough where the exchanged layers fit so much better
RIGHT_SHARE = 0.1


@dataclass(frozen=True)
class Spread:
    """The mean and the standard deviation of a layer's values."""

    mean: float
    std: float

    def __str__(self) -> str:
        return f"mean {self.mean:.4g}, standard deviation {self.std:.4g}"


def doubts_about_layers(
    layers: Layers,
    cards: Sequence[LayerCard],
    area: Area | None = None,
    *,
    zero_is_nodata: bool = False,
) -> list[str]:
    """Sentences about layers that are not what the model learned from.

    Of classes only an exchange is told, by their codes: other shares of them are another region's.
    layers and cards are in the same order.
    """
    given = dict(_sampled(layers, cards, area, zero_is_nodata))
    known = {card.name: Spread(card.mean, card.std) for card in cards if card.name in given}
    classes = {card.name for card in cards if card.categorical}
    alike = [pair for pair in combinations(given, 2) if len(classes.intersection(pair)) != 1]
    said, exchanged = [], set()
    for first, second in _exchanged(given, known, alike):
        exchanged |= {first, second}
        said.append(
            f"The layers '{first}' and '{second}' seem to be exchanged: the one given as {first} "
            f"has {given[first]}, and training knew that as {second} ({known[second]}); {first} "
            f"had {known[first]}. Check which file has which name (--raster NAME=path)."
        )
    for name, spread in given.items():
        if name not in exchanged | classes and _distance(spread, known[name]) > UNLIKE:
            said.append(
                f"Layer {name} is unlike the one that the model learned from: here it has "
                f"{spread}, there it had {known[name]}. Check that it is the same quantity in the "
                "same unit."
            )
    return said


def _sampled(
    layers: Layers, cards: Sequence[LayerCard], area: Area | None, zero_is_nodata: bool
) -> Iterator[tuple[str, Spread]]:
    """The spread of each layer that varied in training."""
    blocks = []
    for block in _some_blocks(layers.grid.window() if area is None else area.bounds):
        values = layers.read(block)
        valid = data_mask(values, zero_is_nodata)
        if area is not None:
            valid &= area.mask(block)
        blocks.append((values, valid))
    for number, card in enumerate(cards):
        if not card.std > 0:
            continue
        found = np.concatenate([values[number][valid[number]] for values, valid in blocks])
        if len(found) >= FEWEST_CELLS:
            exact = found.astype(np.float64)
            yield card.name, Spread(float(exact.mean()), float(exact.std()))


def _some_blocks(within: Window) -> Iterator[Window]:
    """Blocks spread evenly over a window."""
    height, width = min(BLOCK, within.height), min(BLOCK, within.width)
    rows, cols = (
        np.unique(np.linspace(0, length - size, min(BLOCKS, -(-length // size))).astype(int))
        for length, size in ((within.height, height), (within.width, width))
    )
    for row in rows.tolist():
        for col in cols.tolist():
            yield Window(within.row + row, within.col + col, height, width)


def _exchanged(
    given: dict[str, Spread], known: dict[str, Spread], among: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Pairs that fit better under each other's names, the clearest first, each layer once."""
    gains = {}
    for first, second in among:
        as_given = [_distance(given[name], known[name]) for name in (first, second)]
        other = [
            _distance(given[first], known[second]),
            _distance(given[second], known[first]),
        ]
        gain = sum(as_given) - sum(other)
        clear = sum(as_given) > CLEAR and sum(other) < RIGHT_SHARE * sum(as_given)
        if (gain > GAIN and max(other) < TAKEN_FOR) or clear:
            gains[first, second] = gain
    chosen: list[tuple[str, str]] = []
    for pair in sorted(gains, key=lambda pair: -gains[pair]):
        if not {name for other in chosen for name in other}.intersection(pair):
            chosen.append(pair)
    return chosen


def _distance(given: Spread, known: Spread) -> float:
    """Bhattacharyya's, of two normal distributions; a narrow one is taken to be wider."""
    std = max(given.std, NARROWEST * known.std)
    squares = std**2 + known.std**2
    apart = (given.mean - known.mean) ** 2 / (4 * squares)
    return apart + math.log(squares / (2 * std * known.std)) / 2
