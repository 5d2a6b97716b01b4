"""Which layers matter: what held-out occurrences lose in likelihood when a layer is exchanged.

In each window the layer is replaced by the same layer cut out of another window, turned and
mirrored at random: a block permutation. The layer keeps its own texture and autocorrelation and
loses its relation to the other layers and to the occurrences. The others stay as they are, so of
two layers that tell the same, neither may seem to matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from geocfm.data.augmentation import SYMMETRIES
from geocfm.data.image import Image
from geocfm.data.region import Region
from geocfm.data.replaced_layers import Channels, LayeredWindow
from geocfm.data.windows import Starts
from geocfm.evaluation.benchmark.flow_method import FlowView
from geocfm.evaluation.comparison import FEW_TILES, tile_interval
from geocfm.evaluation.window_likelihood import MASS_POINTS, windows_of
from geocfm.events import Stage
from geocfm.geo.grid import Window
from geocfm.inference.flow_sampler import FlowSampler
from geocfm.inference.predictor import Predictor

REPETITIONS = 20  # donors of each window: with 5, ten windows differed by 0.01 nats between seeds
FEWEST_OCCURRENCES = 5  # on test tiles; else the validation tiles are looked at
DONOR_TRIES = 12  # windows looked at for one with enough data
IMAGES_AT_ONCE = 16
# Images that are judged at most: fewer repetitions, then fewer windows, if there would be more.
# About 15 s by the density head for windows of 96 cells and the preset quick, a minute by the flow.
MOST_BY_HEAD = 4000
MOST_BY_FLOW = 150
MOST_SAID = 3  # layers in the sentence
LEAST_SAID = 0.02  # nats: occurrences 2 % less likely
MEANING = (
    "loss_nats: by how much less likely the occurrences are, in nats per occurrence, when the "
    "layer is replaced by that of other places; low and high: its 95 % interval by tiles, which of "
    f"fewer than {FEW_TILES} tiles is too narrow. Layers that tell the same share their "
    "importance, and may each seem to have none."
)

LogDensities = Callable[[list[Image]], NDArray[np.float64]]
"""Log density per cell (B, n) at the n occurrences that images (B) of one window share."""


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
    """All layers, the one that matters most first; none where no occurrence can be judged."""

    layers: tuple[LayerImportance, ...]
    role: str  # of the tiles: test, or validation where that holds too few occurrences
    on_test: int  # occurrences in windows of the test tiles
    windows: int
    repetitions: int
    by_head: bool  # by the density head, or by the flow's exact density

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
            "windows": self.windows,
            "repetitions": self.repetitions,
            "density": "head" if self.by_head else "flow",
            "meaning": MEANING,
        }

    def sentence(self) -> str:
        """The layers that matter most, for people."""
        if not self.layers:
            return (
                "Which layers matter cannot be told: no occurrence lies in a window of the "
                "held-out or validation tiles."
            )
        instead = ""
        if self.role != "test":
            few = f"only {self.on_test}" if self.on_test else "no"
            instead = (
                f" They lie on validation tiles, which chose the model, since {few} "
                f"{'occurrence lies' if self.on_test < 2 else 'occurrences lie'} in a window of "
                "the held-out tiles."
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
    by_head = predictor.card.settings.network.density
    role, on_test, windows = _judged(region)
    layers = len(region.layer_cards)
    most = MOST_BY_HEAD if by_head else MOST_BY_FLOW
    repetitions = max(1, min(repetitions, most // (layers * max(len(windows), 1))))
    windows = _some(windows, max(1, most // (layers * repetitions)))
    judge = (_by_head if by_head else _by_flow)(predictor.sampler)
    total = np.zeros((layers, len(region.points)))
    count = np.zeros((layers, len(region.points)))
    for number, window in enumerate(windows):
        stage(number, len(windows))
        here = region.inside(window)
        for loss in _losses(region, role, window, judge, seed, repetitions):
            known = np.isfinite(loss)  # a flow may have no mass on a window
            total[:, here] += np.where(known, loss, 0)
            count[:, here] += known
    stage(len(windows), len(windows))
    found = [
        _of_layer(region, card.name, total[layer], count[layer])
        for layer, card in enumerate(region.layer_cards)
        if count[layer].any()
    ]
    found.sort(key=lambda layer: -layer.loss_nats)
    return Importance(tuple(found), role, on_test, len(windows), repetitions, by_head)


def _judged(region: Region) -> tuple[str, int, list[Window]]:
    """The role whose tiles are looked at, occurrences in windows of test tiles, its windows."""
    windows = {role: windows_of(region, role) for role in ("test", "validation")}
    reached = {
        role: len({number for window in some for number in region.inside(window)})
        for role, some in windows.items()
    }
    few = reached["test"] < min(FEWEST_OCCURRENCES, reached["validation"])
    role = "validation" if few else "test"
    return role, reached["test"], windows[role]


def _some(windows: list[Window], most: int) -> list[Window]:
    """At most so many, spread evenly."""
    chosen = np.linspace(0, len(windows) - 1, min(len(windows), most)).astype(int)
    return [windows[number] for number in chosen]


def _donors(region: Region, role: str, window: Window) -> Starts:
    """Windows (N, 2) to take layers from: apart from this one, and with an occurrence as it has.

    So each layer holds what it holds where occurrences are, and the model has seen its like.
    """
    starts = np.concatenate([region.starts["train"], region.starts[role]])
    apart = (np.abs(starts - (window.row, window.col)) >= region.plan.size).any(axis=1)
    return starts[apart] if apart.any() else starts


def _losses(
    region: Region, role: str, window: Window, judge: LogDensities, seed: int, repetitions: int
) -> Iterator[NDArray[np.float64]]:
    """Losses (L, n) in nats of the window's n occurrences, once for each repetition."""
    own = LayeredWindow.read(region.read(window), region.encoder)
    points = region.points_in(window) * (window.width, window.height)

    def images(some: list[Channels]) -> list[Image]:
        return [Image(channels, own.footprint, points) for channels in some]

    donors = _donors(region, role, window)
    as_is = judge(images([own.channels]))
    layers = range(len(region.layer_cards))
    for repetition in range(repetitions):
        generator = np.random.default_rng([seed, window.row, window.col, repetition])
        donor = _donor(region, own, donors, generator)
        parts = [layers[first : first + IMAGES_AT_ONCE] for first in layers[::IMAGES_AT_ONCE]]
        exchanged = [
            judge(images([own.with_layer_of(donor, layer) for layer in part])) for part in parts
        ]
        yield as_is - np.concatenate(exchanged)


def _donor(
    region: Region, own: LayeredWindow, donors: Starts, generator: np.random.Generator
) -> LayeredWindow:
    """A window with at least as much data in every layer, or the one of a few that lacks least."""
    chosen = donors[generator.permutation(len(donors))[:DONOR_TRIES]]
    symmetry = int(generator.integers(SYMMETRIES))
    best: LayeredWindow | None = None
    for start in chosen:
        found = LayeredWindow.read(region.read(region.window(start)), region.encoder)
        if best is None or own.lacking(found) < own.lacking(best):
            best = found
        if not own.lacking(best):
            break
    assert best is not None
    return best.turned(symmetry)


def _by_head(sampler: FlowSampler) -> LogDensities:
    """The density head's, one pass for all images: a softmax over the footprint."""

    def log_densities(images: list[Image]) -> NDArray[np.float64]:
        encoded = sampler.encode(
            np.stack([image.channels for image in images]),
            np.stack([image.footprint for image in images]),
        )
        logs = encoded.maps.log_density
        assert logs is not None
        col, row = np.floor(images[0].points).astype(np.int64).T
        return logs[:, row, col].cpu().double().numpy()

    return log_densities


def _by_flow(sampler: FlowSampler) -> LogDensities:
    """The flow's exact density at the very points, divided by its mass on the window."""

    def log_densities(images: list[Image]) -> NDArray[np.float64]:
        found = [
            FlowView(sampler, image, MASS_POINTS).log_density(image.points) for image in images
        ]
        return np.stack(found)

    return log_densities


def _of_layer(
    region: Region, name: str, total: NDArray[np.float64], count: NDArray[np.float64]
) -> LayerImportance:
    """Sums (N,) over windows and repetitions: an occurrence counts once, with their mean."""
    seen = count > 0
    each = total[seen] / count[seen]
    low, high, tiles = tile_interval(each, region.split.tile_of_points(region.points[seen]))
    return LayerImportance(name, float(each.mean()), low, high, int(seen.sum()), tiles)
