"""Which layers matter: what held-out occurrences lose in likelihood when a layer is exchanged.

On the held-out tiles, and as far around them as counts, the layer is replaced block by block by the
same layer of other places, turned and mirrored at random: a block permutation. The layer keeps its
own texture and autocorrelation and loses its relation to the other layers and to the occurrences.
The others stay as they are, so of two layers that tell the same, neither may seem to matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from geocfm.data.augmentation import SYMMETRIES
from geocfm.data.region import Region
from geocfm.data.replaced_layers import Channels, LayeredWindow
from geocfm.data.split import ROLES
from geocfm.data.windows import Starts
from geocfm.evaluation.comparison import FEW_TILES, tile_interval
from geocfm.events import Stage
from geocfm.geo.grid import Window
from geocfm.inference.look import pieces, seen_around
from geocfm.inference.predictor import Predictor

REPETITIONS = 20  # donors of every block: on two tiles, losses differ by a sixth between seeds
FEWEST_OCCURRENCES = 5  # on test tiles; else the validation tiles are looked at
DONOR_TRIES = 12  # windows looked at for one with enough data
PIECE = 384  # cells of the side of what is judged in one pass; more takes memory, fewer time
# Cells that are looked at with a layer exchanged, at most: fewer repetitions, then less ground, if
# there would be more. About 15 s of one core by the preset quick, two minutes by full.
MOST_CELLS = 50_000_000
MOST_SAID = 3  # layers in the sentence
LEAST_SAID = 0.02  # nats: occurrences 2 % less likely
MEANING = (
    "loss_nats: by how much less likely the occurrences are among all cells of the tiles, in nats "
    "per occurrence, when the layer is replaced by that of other places; low and high: its 95 % "
    f"interval by tiles, which of fewer than {FEW_TILES} tiles is too narrow. Layers that tell the "
    "same share their importance, and may each seem to have none."
)


@dataclass(frozen=True)
class LayerImportance:
    """What the occurrences lose without one layer."""

    layer: str
    loss_nats: float  # mean over occurrences; negative: they are likelier without it
    low: float | None  # of the 95 % interval by tiles; None where all lie on one
    high: float | None
    occurrences: int
    tiles: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends, if there are tiles enough for them to be worth showing."""
        if self.low is None or self.high is None or self.tiles < FEW_TILES:
            return None
        return self.low, self.high

    @property
    def told(self) -> bool:
        """Whether the loss can be told from 0."""
        return self.interval is not None and self.interval[0] > 0


@dataclass(frozen=True)
class Importance:
    """All layers, the one that matters most first; none where that cannot be told."""

    layers: tuple[LayerImportance, ...]
    role: str  # of the tiles: test, or validation where that holds too few occurrences
    on_test: int  # occurrences on the test tiles
    repetitions: int
    local: bool  # whether the model says how places compare

    @property
    def whose(self) -> str:
        """The occurrences that were looked at, by their tiles."""
        return "held-out" if self.role == "test" else "validation"

    def why_no_interval(self) -> str:
        """What keeps losses from having an interval, for people; empty if nothing does."""
        tiles = max((layer.tiles for layer in self.layers), default=FEW_TILES)
        if tiles >= FEW_TILES:
            return ""
        if tiles == 1:
            return (
                "All of the occurrences lie on one tile, so no interval can be given, and another "
                "tile may tell another story."
            )
        return (
            f"The occurrences lie on {tiles} tiles only, too few tiles for an interval: others may "
            "tell another story."
        )

    def to_dict(self) -> dict[str, object]:
        """For the JSON file."""
        return {
            "layers": [asdict(layer) for layer in self.layers],
            "role": self.role,
            "repetitions": self.repetitions,
            "meaning": MEANING,
        }

    def sentence(self) -> str:
        """The layers that matter most, for people."""
        if not self.local:
            return (
                "Which layers matter cannot be told: every window of this model has a density of "
                "its own, and the model does not say how windows compare."
            )
        if not self.layers:
            return (
                "Which layers matter cannot be told: no occurrence lies on the held-out or "
                "validation tiles."
            )
        instead = ""
        if self.role != "test":
            few = f"only {self.on_test}" if self.on_test else "no"
            instead = (
                f" They lie on validation tiles, which chose the model, since {few} "
                f"{'occurrence lies' if self.on_test < 2 else 'occurrences lie'} on the held-out "
                "tiles."
            )
        most = [layer for layer in self.layers if layer.loss_nats >= LEAST_SAID][:MOST_SAID]
        if not most:
            return (
                f"No layer matters by itself: {self.whose} occurrences are as likely with any one "
                f"of them replaced by that of other places.{instead}"
            )
        losses = [f"{layer.loss_nats:.2f}" for layer in most]
        losses[0] = f"{self.whose} occurrences are {losses[0]} nats less likely"
        said = "; without ".join(
            f"{layer.layer} {loss}{_interval(layer)}"
            for layer, loss in zip(most, losses, strict=True)
        )
        return f"Without {said}.{instead}"


def _interval(layer: LayerImportance) -> str:
    if layer.interval is None:
        return ""
    low, high = layer.interval
    return f" ({low:.2f} to {high:.2f})"


def layer_importance(
    region: Region, predictor: Predictor, seed: int, stage: Stage, repetitions: int = REPETITIONS
) -> Importance:
    """The importance of each layer of a model on its region; depends on the seed alone."""
    local, on = predictor.card.settings.is_local, region.points_by_role()
    few = on["test"] < min(FEWEST_OCCURRENCES, on["validation"])
    role = "validation" if few else "test"
    if not local or not on[role]:
        return Importance((), role, on["test"], 0, local)
    tiles = [tile for tile, number in region.split.tiles() if number == ROLES.index(role)]
    judged = [piece for tile in tiles for piece in pieces(tile, PIECE)]
    network, grid = predictor.card.settings.network, region.grid.window()
    cells = len(region.layer_cards) * sum(seen_around(p, network, grid).cells for p in judged)
    repetitions = max(1, min(repetitions, MOST_CELLS // cells))
    judged = _some(region, judged, max(1, len(judged) * MOST_CELLS // (cells * repetitions)))
    losses = _losses(region, predictor, role, judged, seed, repetitions, stage)
    found = [
        _of_layer(region, card.name, own)
        for card, own in zip(region.layer_cards, losses, strict=True)
    ]
    found.sort(key=lambda layer: -layer.loss_nats)
    return Importance(tuple(found), role, on["test"], repetitions, local)


def _some(region: Region, judged: list[Window], most: int) -> list[Window]:
    """At most so many, from those with the most occurrences to those with none."""
    ordered = sorted(judged, key=lambda piece: -len(region.inside(piece)))
    chosen = np.linspace(0, len(ordered) - 1, min(len(ordered), most)).astype(int)
    return [ordered[number] for number in chosen]


def _losses(
    region: Region,
    predictor: Predictor,
    role: str,
    judged: Sequence[Window],
    seed: int,
    repetitions: int,
    stage: Stage,
) -> NDArray[np.float64]:
    """Losses (L, N) in nats of all occurrences; NaN of those that lie beyond what is judged."""
    network, grid = predictor.card.settings.network, region.grid.window()
    layers = len(region.layer_cards)
    images = 1 + repetitions * layers
    at_points = np.full((images, len(region.points)), np.nan)
    totals = np.full(images, -np.inf)
    for number, piece in enumerate(judged):
        seen = seen_around(piece, network, grid)
        own = LayeredWindow.read(region.read(seen), region.encoder)
        inside = piece.slices_in(seen)
        points = region.inside(piece)
        col, row = np.floor(region.points[points] - (seen.col, seen.row)).astype(np.int64).T
        exchanged = _exchanged(region, role, own, seen, seed, repetitions)
        for image, channels in enumerate(exchanged):
            stage(number * images + image, len(judged) * images)
            logs = predictor.sampler.log_intensity(channels)
            at_points[image, points] = logs[row, col]
            total = np.logaddexp.reduce(logs[inside][own.footprint[inside]])
            totals[image] = np.logaddexp(totals[image], total)
    stage(len(judged) * images, len(judged) * images)
    as_is, *others = at_points - totals[:, None]
    mean = np.reshape(others, (repetitions, layers, len(as_is))).mean(axis=0)
    losses: NDArray[np.float64] = as_is - mean
    return losses


def _exchanged(
    region: Region, role: str, own: LayeredWindow, seen: Window, seed: int, repetitions: int
) -> Iterator[Channels]:
    """What is seen as it is, and then, once for each repetition, with each layer exchanged."""
    yield own.channels
    for repetition in range(repetitions):
        donor = _donor(region, role, own, seen, (seed, repetition))
        for layer in range(len(region.layer_cards)):
            yield own.with_layer_of(donor, layer)


def _donor(
    region: Region, role: str, own: LayeredWindow, seen: Window, seed: tuple[int, int]
) -> LayeredWindow:
    """As large as what is seen: blocks of the model's windows, on one lattice for the whole grid.

    A block depends on the seed and its place, so what is seen twice is exchanged alike.
    """
    size, starts = region.plan.size, np.concatenate([region.ground["train"], region.ground[role]])
    channels, valid = np.zeros_like(own.channels), np.zeros_like(own.valid)
    for row in range(seen.row // size * size, seen.row_stop, size):
        for col in range(seen.col // size * size, seen.col_stop, size):
            block = Window(row, col, size, size)
            inside = block.intersection(seen)
            assert inside is not None
            here = (slice(None), *inside.slices_in(seen))
            there = (slice(None), *inside.slices_in(block))
            replaced = LayeredWindow.read(region.read(block), own.encoder)
            generator = np.random.default_rng([*seed, row, col])
            given = _given(region, replaced, _apart(starts, block), generator)
            channels[here], valid[here] = given.channels[there], given.valid[there]
    return LayeredWindow(channels, valid, own.encoder)


def _apart(starts: Starts, block: Window) -> Starts:
    """Windows (N, 2) of a block's size that do not overlap it; if there are none, the block."""
    place = np.array([[block.row, block.col]])
    apart = starts[(np.abs(starts - place) >= block.height).any(axis=1)]
    return apart if len(apart) else place


def _given(
    region: Region, replaced: LayeredWindow, starts: Starts, generator: np.random.Generator
) -> LayeredWindow:
    """A window with at least as much data in every layer, or the one of a few that lacks least."""
    chosen = starts[generator.permutation(len(starts))[:DONOR_TRIES]]
    symmetry = int(generator.integers(SYMMETRIES))
    best: LayeredWindow | None = None
    for start in chosen:
        found = LayeredWindow.read(region.read(region.window(start)), region.encoder)
        if best is None or replaced.lacking(found) < replaced.lacking(best):
            best = found
        if not replaced.lacking(best):
            break
    assert best is not None
    return best.turned(symmetry)


def _of_layer(region: Region, name: str, losses: NDArray[np.float64]) -> LayerImportance:
    """Losses (N,) of all occurrences, NaN of those that are not judged."""
    known = np.isfinite(losses)
    each = losses[known]
    low, high, tiles = tile_interval(each, region.split.tile_of_points(region.points[known]))
    return LayerImportance(name, float(each.mean()), low, high, len(each), tiles)
