"""Which layers raise the density at a place: it is asked again with each layer at its mean.

What is compared is the log of the place's intensity, the sum over its cells. The layer is at its
mean as far around the place as counts for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geocfm.data.replaced_layers import Channels, LayeredWindow
from geocfm.data.windows import lattice_starts
from geocfm.geo.grid import Window
from geocfm.inference.look import pieces, seen_around
from geocfm.inference.predictor import Predictor

PIECE = 256  # cells of the side of what is asked about in one pass, about twice what lies around it
MOST_PIECES = 4  # of one target: ten large ones and 15 layers take the preset quick a minute
MEAN_WINDOWS = 64  # spread over the grid, for the shares of classes
MOST_SAID = 3  # layers of a target
LEAST_SAID = 0.05  # nats; less is written as +0.0


@dataclass(frozen=True)
class TargetCells:
    """A place: those cells of a window of the grid that the mask (height, width) is true for."""

    window: Window
    mask: NDArray[np.bool_]


@dataclass(frozen=True)
class LayerEffect:
    """By how much the log of the place's intensity drops with the layer at its mean."""

    layer: str
    drop_nats: float  # positive: the layer raises the density there


def layers_that_matter(
    predictor: Predictor,
    targets: Sequence[TargetCells],
    progress: Callable[[float, float], None] = lambda done, total: None,
) -> list[list[LayerEffect]]:
    """The effect of every layer on each target, the largest drop first; none without data there.

    Of a large target some pieces stand for all, those with the most of its cells. A model whose
    windows have densities of their own tells nothing: what they sum to is the same whatever the
    layers are.
    """
    if not predictor.card.settings.is_local:
        return [[] for _ in targets]
    means = channel_means(predictor)
    found = []
    for number, target in enumerate(targets):
        progress(number, len(targets))
        found.append(_effects(predictor, means, target))
    progress(len(targets), len(targets))
    return found


def describe_effects(effects: Sequence[LayerEffect]) -> str:
    """The layers that matter most, such as "magnetics +1.2, fault distance +0.4"; may be empty."""
    telling = [effect for effect in effects if effect.drop_nats >= LEAST_SAID][:MOST_SAID]
    return ", ".join(f"{effect.layer} {effect.drop_nats:+.1f}" for effect in telling)


def channel_means(predictor: Predictor) -> list[NDArray[np.float64]]:
    """What each layer's value channels (c,) are on average.

    Values are standardised: 0 is their mean. Classes have their shares of the cells with data, in
    windows spread over the grid.
    """
    encoder = predictor.encoder
    sums = [np.zeros(len(card.classes) if card.categorical else 1) for card in encoder.layers]
    classes = [number for number, card in enumerate(encoder.layers) if card.categorical]
    if not classes:
        return sums
    cells = np.zeros(len(sums))
    for window in _spread(predictor):
        read = LayeredWindow.read(predictor.layers.read(window), encoder)
        for number in classes:
            sums[number] += read.channels[encoder.value_channels(number)].sum(axis=(1, 2))
            cells[number] += read.valid[number].sum()
    return [some / max(count, 1) for some, count in zip(sums, cells, strict=True)]


def _effects(
    predictor: Predictor, means: list[NDArray[np.float64]], target: TargetCells
) -> list[LayerEffect]:
    totals = np.full(1 + len(means), -np.inf)  # logs of the intensity, as it is and without each
    for piece in _largest_pieces(target):
        totals = np.logaddexp(totals, _log_totals(predictor, means, target, piece))
    if np.isneginf(totals[0]):
        return []
    effects = [
        LayerEffect(card.name, float(drop))
        for card, drop in zip(predictor.card.layers, totals[0] - totals[1:], strict=True)
    ]
    return sorted(effects, key=lambda effect: -effect.drop_nats)


def _largest_pieces(target: TargetCells) -> list[Window]:
    """Pieces of a target's window, those with the most of its cells first."""

    def cells(piece: Window) -> int:
        return int(target.mask[piece.slices_in(target.window)].sum())

    return sorted(pieces(target.window, PIECE), key=cells, reverse=True)[:MOST_PIECES]


def _log_totals(
    predictor: Predictor, means: list[NDArray[np.float64]], target: TargetCells, piece: Window
) -> NDArray[np.float64]:
    """Log (1 + L,) of the intensity of a piece's cells, as it is and with each layer at its mean.

    One image is in memory at a time.
    """
    network, grid = predictor.card.settings.network, predictor.layers.grid.window()
    seen = seen_around(piece, network, grid)
    own = LayeredWindow.read(predictor.layers.read(seen), predictor.encoder)
    here = piece.slices_in(seen)
    wanted = target.mask[piece.slices_in(target.window)] & own.footprint[here]
    found = []
    for channels in _occluded(own, means):
        logs = predictor.sampler.log_intensity(channels)[here][wanted]
        found.append(np.logaddexp.reduce(logs))  # of no cells -inf
    return np.array(found)


def _occluded(own: LayeredWindow, means: list[NDArray[np.float64]]) -> Iterator[Channels]:
    """The window as it is, and then with each layer at its mean."""
    yield own.channels
    for layer, mean in enumerate(means):
        yield own.with_layer_mean(layer, mean)


def _spread(predictor: Predictor) -> list[Window]:
    """Windows that do not overlap, spread evenly over the grid."""
    size = predictor.window_size
    starts = lattice_starts(predictor.layers.grid, size, size)
    some = np.linspace(0, len(starts) - 1, min(len(starts), MEAN_WINDOWS)).astype(int)
    return [Window(int(row), int(col), size, size) for row, col in starts[some]]
