"""Which layers raise the density at a place: it is asked again with each layer at its mean.

A window's density sums to one, so what is compared is the share of it that lies on the place's
cells, as a logarithm. A layer that says the same all over the window, or a place that fills the
window, gives no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from geocfm.data.encoding import Encoder
from geocfm.data.replaced_layers import Channels, LayeredWindow
from geocfm.data.windows import blocks, lattice_starts
from geocfm.geo.grid import Window
from geocfm.inference.density import DRAWS_PER_WINDOW, density_from_draws
from geocfm.inference.predictor import EncodedWindows, Predictor

MOST_WINDOWS = 8  # of one target
MEAN_WINDOWS = 64  # spread over the grid, for the shares of classes
IMAGES_AT_ONCE = 16
LEAST_SHARE = 0.5 / DRAWS_PER_WINDOW  # half a draw: less cannot be told from draws
MOST_SAID = 3  # layers of a target
LEAST_SAID = 0.05  # nats; less is written as +0.0


@dataclass(frozen=True)
class TargetCells:
    """A place: those cells of a window of the grid that the mask (height, width) is true for."""

    window: Window
    mask: NDArray[np.bool_]
    densest: tuple[int, int] | None = None  # (row, column) on the grid, if that is known


@dataclass(frozen=True)
class LayerEffect:
    """By how much the log of the place's share of the density drops with the layer at its mean."""

    layer: str
    drop_nats: float  # positive: the layer raises the density there


def layers_that_matter(
    predictor: Predictor,
    targets: Sequence[TargetCells],
    seed: int = 0,
    progress: Callable[[float, float], None] = lambda done, total: None,
) -> list[list[LayerEffect]]:
    """The effect of every layer on each target, the largest drop first; none without data there.

    The density is that of the density head, or of draws (which depend on the seed) if the model
    has none. In a target that is larger than half a window, the mean over several windows counts,
    each by its cells of the target. One target's windows are in memory, a few at a time.
    """
    encoder = Encoder(predictor.card.layers, predictor.card.settings.windows)
    means = channel_means(predictor, encoder)
    found = []
    for number, target in enumerate(targets):
        progress(number, len(targets))
        found.append(_effects(predictor, encoder, means, target, seed))
    progress(len(targets), len(targets))
    return found


def describe_effects(effects: Sequence[LayerEffect]) -> str:
    """The layers that matter most, such as "magnetics +1.2, fault distance +0.4"; may be empty."""
    telling = [effect for effect in effects if effect.drop_nats >= LEAST_SAID][:MOST_SAID]
    return ", ".join(f"{effect.layer} {effect.drop_nats:+.1f}" for effect in telling)


def channel_means(predictor: Predictor, encoder: Encoder) -> list[NDArray[np.float64]]:
    """What each layer's value channels (c,) are on average.

    Values are standardised: 0 is their mean. Classes have their shares of the cells with data, in
    windows spread over the grid.
    """
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


def target_windows(target: TargetCells, size: int, whole: Window) -> list[Window]:
    """Windows of the model's size over a target, the first around its densest cell if it is known.

    One is enough for a target up to half a window. Others are cut into pieces of that size, and
    the pieces with the most cells have a window each.
    """
    half = max(1, size // 2)
    pieces = []
    for piece in blocks(target.window, 1, half):
        count = int(target.mask[piece.slices_in(target.window)].sum())
        if count:
            pieces.append((-count, piece.row, piece.col, piece))
    centres = [_centre(piece) for *_, piece in sorted(pieces, key=lambda found: found[:3])]
    if target.densest is not None and centres:
        centres = [target.densest, *centres]
    small = max(target.window.height, target.window.width) <= half
    found = [
        Window(
            _start(row - half, size, whole.height),
            _start(col - half, size, whole.width),
            size,
            size,
        )
        for row, col in centres[: 1 if small else MOST_WINDOWS]
    ]
    return list(dict.fromkeys(found))  # at the grid's end two may be the same


def _effects(
    predictor: Predictor,
    encoder: Encoder,
    means: list[NDArray[np.float64]],
    target: TargetCells,
    seed: int,
) -> list[LayerEffect]:
    size, whole = predictor.window_size, predictor.layers.grid.window()
    total, cells = np.zeros(len(encoder.layers)), 0
    for window in target_windows(target, size, whole):
        own = LayeredWindow.read(predictor.layers.read(window), encoder)
        wanted = _mask_in(target, window) & own.footprint
        if not wanted.any():
            continue
        images, parts = _occluded(own, means), []
        while some := list(islice(images, IMAGES_AT_ONCE)):
            parts.append(_log_shares(predictor, window, some, own.footprint, wanted, seed))
        shares = np.concatenate(parts)
        count = int(wanted.sum())
        total += count * (shares[0] - shares[1:])
        cells += count
    if not cells:
        return []
    effects = [
        LayerEffect(card.name, float(drop))
        for card, drop in zip(encoder.layers, total / cells, strict=True)
    ]
    return sorted(effects, key=lambda effect: -effect.drop_nats)


def _occluded(own: LayeredWindow, means: list[NDArray[np.float64]]) -> Iterator[Channels]:
    """The window as it is, and then with each layer at its mean."""
    yield own.channels
    for layer, mean in enumerate(means):
        yield own.with_layer_mean(layer, mean)


def _log_shares(
    predictor: Predictor,
    window: Window,
    images: list[Channels],
    footprint: NDArray[np.bool_],
    wanted: NDArray[np.bool_],
    seed: int,
) -> NDArray[np.float64]:
    """Log (B,) of the share of each image's density on the wanted cells (P, P)."""
    footprints = np.repeat(footprint[None], len(images), axis=0)
    encoded = predictor.sampler.encode(np.stack(images), footprints)
    logs = encoded.maps.log_density
    if logs is not None:
        there = logs.cpu().double().numpy()[:, wanted]
        found: NDArray[np.float64] = np.logaddexp.reduce(there, axis=1)
        return found
    windows = EncodedWindows(encoded.maps, footprints, (window,) * len(images))
    densities = np.stack(density_from_draws(predictor, windows, seed))
    shares = densities[:, wanted].sum(axis=1) / densities.sum(axis=(1, 2))
    return np.log(np.maximum(shares, LEAST_SHARE))


def _spread(predictor: Predictor) -> list[Window]:
    """Windows that do not overlap, spread evenly over the grid."""
    size = predictor.window_size
    starts = lattice_starts(predictor.layers.grid, size, size)
    some = np.linspace(0, len(starts) - 1, min(len(starts), MEAN_WINDOWS)).astype(int)
    return [Window(int(row), int(col), size, size) for row, col in starts[some]]


def _mask_in(target: TargetCells, window: Window) -> NDArray[np.bool_]:
    """The target's cells (P, P) in a window."""
    found = np.zeros((window.height, window.width), dtype=np.bool_)
    shared = window.intersection(target.window)
    if shared is not None:
        found[shared.slices_in(window)] = target.mask[shared.slices_in(target.window)]
    return found


def _centre(piece: Window) -> tuple[int, int]:
    return piece.row + piece.height // 2, piece.col + piece.width // 2


def _start(wanted: int, size: int, length: int) -> int:
    """Where a window begins that lies within the grid, as far as the grid is long enough."""
    return min(max(wanted, 0), max(length - size, 0))
