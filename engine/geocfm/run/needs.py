"""What a job will need, told before it begins: memory, room on the disk, cells to read.

Memory is counted beyond the program itself, which is already there when these functions are asked.
The factors are counts of the arrays that live at the peak, checked against measured peaks
(docs/benchmarks.md): on a CPU, training and maps come out within 0.7 to 1.6 of those. Draws of few
points may take twice the estimate, because small arrays leave gaps in the heap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from geocfm.data.region_batches import VALIDATION_WINDOWS
from geocfm.data.scan import CACHE_BYTES
from geocfm.data.synthetic_training import CHANNELS, MOST_WORKERS
from geocfm.data.windows import BLOCK, WindowPlan, plan_windows
from geocfm.errors import UserError
from geocfm.geo.grid import Grid
from geocfm.geo.layers import CACHE_MB
from geocfm.inference.density import DRAWS_PER_WINDOW
from geocfm.inference.regional_draws import SPARE
from geocfm.inference.windowed_map import BATCH, OVERLAP, window_step
from geocfm.model.checkpoint import ModelCard
from geocfm.model.network import ATTENTIONS, VelocityNetwork
from geocfm.model.settings import SMALLEST_WINDOW, NetworkSettings, Settings, TrainingSettings
from geocfm.run.room import available_bytes, ensure_fits

SMALLEST_BENCHMARK = 32  # pixels along an image's side
MOST_CELLS = 4 * 10**10  # eight layers of so many take most of a working day to read once
SMALLER_REGION = "Give layers that cover a smaller region."

FLOAT = 4  # bytes of a float32
FIRST_USE = 120_000_000  # what torch loads and sets aside when a network first learns
FIRST_PASS = 70_000_000  # and when it is only applied
WEIGHT_COPIES = 12  # weights, gradients, Adam's two, average; best and new snapshot; a saved state
IMAGE_COPIES = 6  # of a batch: as read, stacked, channels last, the next, and one being read
LATTICE_CELL = 90  # bytes per stride x stride cell: footprint, counts, starts and their sums
TILE = 300  # bytes of a tile as a Window with its role
TILE_LAYER = 24  # bytes of a layer's statistics in a tile
WINDOW = 200  # bytes of a window of the mosaic as a Window
GENERATED_CELL = 160  # bytes of a cell of a synthetic image while it is made
LARGEST_TILE, SMALLEST_TILE = 1152, 192  # cells along the side of what is mapped in one pass
TILE_STEP = 64
TILE_SHARE = 0.5  # of the free memory that it may take
MOST_OF_A_TILE = 500_000_000  # bytes: larger ones save little, as margins are a small part then
STRIP_COPIES = 6  # of a row of tiles: as found, in cells of the area, saved, assembled to bands
DRAWN_POINT = 600  # bytes of a point from its proposal to the written file, without the network

MAP_DISK = FLOAT * (1 + 1 + 4 / 3)  # bytes of a cell: finished strips, raw map, COG with overviews
DRAWN_POINT_DISK = 250  # bytes: finished parts, and the GeoPackage


Points = NDArray[np.float64]
"""Occurrences (N, 2) as (column, row)."""


@dataclass(frozen=True)
class Needs:
    """Bytes of arrays in main memory, and of the network on its device (which may be the same)."""

    arrays: int
    network: int = 0

    def tightest(self, device: torch.device) -> tuple[int, int]:
        """What is needed and what there is, where they are nearest or there is too little."""
        if device.type == "cuda":
            network = self.network, available_bytes(device)
            arrays = self.arrays, available_bytes()
            return max(network, arrays, key=lambda pair: pair[0] - pair[1])
        return self.arrays + self.network, available_bytes()

    def fit(self, device: torch.device) -> bool:
        """Whether there is as much."""
        needed, available = self.tightest(device)
        return needed <= available


# What is needed.


def region_bytes(grid: Grid, layers: int, plan: WindowPlan) -> int:
    """Peak of looking at the layers: the stack if it is kept, statistics, the windows' lattice."""
    cells = grid.height * grid.width
    lattice = math.ceil(grid.height / plan.stride) * math.ceil(grid.width / plan.stride)
    tiles = math.ceil(grid.height / plan.tile) * math.ceil(grid.width / plan.tile)
    stack = layers * cells * FLOAT
    kept = stack if stack <= CACHE_BYTES else 0
    block = min(max(plan.stride, BLOCK), plan.tile, grid.height, grid.width) ** 2
    reading = block * (6 * layers + 28)  # values and masks, and one layer in double precision
    tables = tiles * (TILE + TILE_LAYER * layers) + lattice * LATTICE_CELL
    return kept + min(stack, CACHE_MB * 2**20) + reading + tables


def training_bytes(settings: Settings, channels: int, window: int, points: int) -> int:
    """Peak of a training step with so many noised points, on the network's device."""
    network, batch = settings.network, settings.training.batch
    images = channels * (IMAGE_COPIES * batch + VALIDATION_WINDOWS)
    pixels = window**2 * (batch * _learning_numbers(network) + images)
    weights = WEIGHT_COPIES * _weights(network, channels)
    each = _learning_point_numbers(network) + _anchor_numbers(network, window)
    return FIRST_USE + FLOAT * int(pixels + points * each + weights)


def looking_bytes(settings: Settings, channels: int, side: int) -> int:
    """Peak of looking at a square of so many cells a side, margin included, in one pass."""
    return _applying_bytes(settings, channels, side**2, 0)


def windows_bytes(settings: Settings, channels: int, window: int, batch: int = BATCH) -> int:
    """Peak of mapping a batch of windows by draws, on the network's device."""
    each = _moving_point_numbers(settings.network, window)
    return _applying_bytes(settings, channels, batch * window**2, batch * DRAWS_PER_WINDOW * each)


def mosaic_bytes(grid: Grid, window: int, maps: int = 1) -> int:
    """Main memory of a map by windows: their list, and the row of them that is being blended.

    maps: how many are blended side by side.
    """
    rows, columns = _windows_along(grid.height, window), _windows_along(grid.width, window)
    blended = window * max(grid.width, window) * (3 * 8 + 24 // OVERLAP) * maps  # double precision
    batch = window**2 * (min(BATCH, columns) * (2 + 16 * maps) + 40)  # densities and footprints
    return rows * columns * WINDOW + blended + batch


def drawing_bytes(settings: Settings, channels: int, window: int, wanted: int) -> int:
    """Peak of moving points in a batch of windows, on the network's device.

    At worst all ``wanted`` points lie in them.
    """
    each = _moving_point_numbers(settings.network, window)
    return _applying_bytes(settings, channels, BATCH * window**2, int(SPARE * wanted) * each)


def map_disk_bytes(cells: int) -> int:
    """Room for a map of so many cells while it is made; compression may save some of it."""
    return int(cells * MAP_DISK)


def draws_disk_bytes(wanted: int) -> int:
    """Room for so many drawn points while they are made."""
    return wanted * DRAWN_POINT_DISK


def points_in_a_step(points: Points, window: int, settings: Settings) -> int:
    """Noised points of a step, by the mean over windows half a window apart that hold any."""
    training = settings.training
    if not len(points):
        return training.points_per_step
    row, col = np.floor(points / (window / 2)).astype(np.int64).T
    places = [(row - up) * 2**31 + (col - left) for up in (0, 1) for left in (0, 1)]
    windows = len(np.unique(np.concatenate(places)))
    return _noised(round(training.batch * len(places) * len(points) / windows), training)


def _noised(found: int, training: TrainingSettings) -> int:
    """Points of a batch, repeated while that leaves no more than are asked for."""
    found = max(1, found)
    return found * max(1, training.points_per_step // found)


# Numbers that live at the peak, per pixel of a window or per point.


def _learning_numbers(network: NetworkSettings) -> float:
    """Per pixel, kept by the UNet for the gradient.

    A residual block keeps six maps of its width, a level on the way up four more as inputs, and
    pooling half a one. Reading features at points has gradients as large as the feature map. A
    density has a logit, its softmax and their gradients on every pixel, whatever the stem.
    """
    levels = sum(16.5 * 2**level / 4**level for level in range(network.depth))
    deepest = 6.5 * 2**network.depth / 4**network.depth
    cells = network.width * (levels + deepest) + 5 * network.features
    return cells / network.stem**2 + 8 * network.density


def _applying_numbers(network: NetworkSettings) -> float:
    """Per pixel, without gradients: the last level on the way up, or the features being made."""
    cells = max(9 * network.width, 2 * network.width + 2 * network.features)
    return cells / network.stem**2 + 4 * network.density


def _anchor_numbers(network: NetworkSettings, window: int) -> int:
    """Per point, without gradients: for each row and column of the anchor's cells."""
    return 10 * math.ceil(window / network.anchor) if network.anchor else 0


def _head_inputs(network: NetworkSettings) -> int:
    whole = {"pooled": 1, "attention": ATTENTIONS, "film": 0, "none": 0}[network.context]
    levels = network.depth if network.levels == "all" else 0
    return (
        network.features * (1 + whole + levels)
        + 2
        + network.time_dim
        + (3 if network.anchor else 0)
    )


def _levels_read(network: NetworkSettings) -> int:
    return 1 + (network.depth if network.levels == "all" else 0)


def _learning_point_numbers(network: NetworkSettings) -> int:
    """Per point, kept for the gradient: features around it, the head's inputs and its layers."""
    layers = 5 * network.head_depth if network.head == "residual" else 2 * network.head_depth
    features = _levels_read(network) * network.features
    return 6 * features + 2 * _head_inputs(network) + (layers + 4) * network.head_width + 32


def _moving_point_numbers(network: NetworkSettings, window: int) -> int:
    """Per point, without gradients."""
    layers = 6 if network.head == "residual" else 3
    head = _head_inputs(network) + layers * network.head_width
    features = _levels_read(network) * network.features
    return max(5 * features, head, _anchor_numbers(network, window))


def _weights(network: NetworkSettings, channels: int) -> int:
    with torch.device("meta"):  # shapes without numbers
        described = VelocityNetwork(channels, network)
    return sum(parameter.numel() for parameter in described.parameters())


def _applying_bytes(settings: Settings, channels: int, pixels: int, point_numbers: int) -> int:
    """The larger of making the features of so many pixels, and moving points by them."""
    network = settings.network
    encoding = pixels * (_applying_numbers(network) + channels * (IMAGE_COPIES - 1))
    moving = pixels * network.features / network.stem**2 + point_numbers
    return FIRST_PASS + FLOAT * int(max(encoding, moving) + _weights(network, channels))


def _windows_along(length: int, window: int) -> int:
    return max(0, math.ceil((length - window) / window_step(window))) + 1


# Refusals.


def ensure_readable(grid: Grid, remedy: str) -> None:
    """Refuse a grid that would take days to read, whatever the memory."""
    if not _readable(grid):
        cells = grid.height * grid.width
        raise UserError(
            f"The grid would have {cells:,} cells ({grid.height:,} rows x {grid.width:,} "
            f"columns); {MOST_CELLS:,} are the most that can be read in a day.",
            remedy,
        )


def ensure_learning_fits(
    grid: Grid, layers: int, points: Points, settings: Settings, device: torch.device
) -> None:
    """Refuse a grid or a network that is too large to learn with."""
    coarser = (text for text, less in _coarser(grid) if _readable(less))
    ensure_readable(grid, f"Use {next(coarser, 'larger cells')} or a smaller --extent.")
    plan = plan_windows(grid, len(points), settings.windows)
    region = Needs(region_bytes(grid, layers, plan))
    _refuse(
        region,
        torch.device("cpu"),
        "Looking at the layers",
        ((text, Needs(region_bytes(less, layers, plan))) for text, less in _coarser(grid)),
        ((text, Needs(region_bytes(grid, layers, less))) for text, less in _sparser(plan)),
        otherwise="Use a smaller --extent.",
    )
    # the classes are not known yet: every layer has one channel at least
    channels = layers * (2 if settings.windows.validity_channels else 1)

    size, batch = plan.size, settings.training.batch
    asked = settings.training.points_per_step

    def needs(window: int, batch: int, asked: int = asked) -> Needs:
        update = {"batch": batch, "points_per_step": asked}
        training = settings.training.model_copy(update=update)
        changed = settings.model_copy(update={"training": training})
        step = points_in_a_step(points, window, changed)
        return replace(region, network=training_bytes(changed, channels, window, step))

    sizes = list(_halves(size, SMALLEST_WINDOW))
    both = (f"--window {w} with --set training.batch=1" for w in sizes if needs(w, 1).fit(device))
    _refuse(
        needs(size, batch),
        device,
        "Training",
        ((f"--window {w}", needs(w, batch)) for w in sizes),
        ((f"--set training.batch={b}", needs(size, b)) for b in _halves(batch, 1)),
        (
            (f"--set training.points_per_step={fewer}", needs(size, batch, fewer))
            for fewer in _halves(asked, 1)
        ),
        otherwise=f"Use {next(both, 'a smaller network (--preset quick)')}.",
    )


def ensure_mapping_fits(card: ModelCard, grid: Grid, device: torch.device, maps: int = 1) -> int:
    """Refuse a map that cannot be held; give the side of what is looked at in one pass.

    maps: how many are made side by side, of an ensemble's members for instance.
    """
    ensure_readable(grid, SMALLER_REGION)
    if card.settings.is_local:
        return _tile_side(card, grid, device, maps)

    def needs(window: int) -> Needs:
        batch = min(BATCH, _windows_along(grid.width, window))
        network = windows_bytes(card.settings, card.channels, window, batch)
        return Needs(mosaic_bytes(grid, window, maps), network)

    sizes = _halves(card.window_size, SMALLEST_WINDOW)
    _refuse(
        needs(card.window_size),
        device,
        "The map",
        ((f"a model trained with --window {size}", needs(size)) for size in sizes),
        otherwise=SMALLER_REGION,
    )
    return card.window_size


def _tile_side(card: ModelCard, grid: Grid, device: torch.device, maps: int) -> int:
    """The largest side that leaves most of the memory to others; the map does not depend on it."""

    def needs(side: int) -> Needs:
        strips = side * grid.width * FLOAT * maps * STRIP_COPIES
        return Needs(strips, looking_bytes(card.settings, card.channels, side + _margin(card)))

    for side in range(LARGEST_TILE, SMALLEST_TILE - 1, -TILE_STEP):
        needed, available = needs(side).tightest(device)
        if needed <= TILE_SHARE * available and needs(side).network <= MOST_OF_A_TILE:
            return side
    _refuse(needs(SMALLEST_TILE), device, "The map", otherwise=SMALLER_REGION)
    return SMALLEST_TILE


def _margin(card: ModelCard) -> int:
    """Cells that a look at a tile sees beyond its two ends, together."""
    return 2 * (card.settings.network.reach + card.settings.network.period)


def ensure_region_fits(card: ModelCard, grid: Grid, points: Points, otherwise: str) -> None:
    """Refuse to look at a model's region that cannot be held; ``otherwise`` is the remedy."""
    region = _region_needs(card, grid, points)
    _refuse(region, torch.device("cpu"), "Looking at the layers", otherwise=otherwise)


def ensure_baselines_fit(
    card: ModelCard, grid: Grid, points: Points, networks: bool, device: torch.device
) -> None:
    """Refuse baselines whose region, or whose networks' training steps, cannot be held."""
    without = "Leave out --baselines, or give layers that cover a smaller region."
    ensure_region_fits(card, grid, points, without)
    if networks:
        step = points_in_a_step(points, card.window_size, card.settings)
        network = training_bytes(card.settings, card.channels, card.window_size, step)
        without = "Leave unet-seg and unet-density out of --baselines."
        needs = replace(_region_needs(card, grid, points), network=network)
        _refuse(needs, device, "Training", otherwise=without)


def _region_needs(card: ModelCard, grid: Grid, points: Points) -> Needs:
    windows = card.settings.windows.model_copy(update={"size": card.window_size})
    plan = plan_windows(grid, len(points), windows)
    return Needs(region_bytes(grid, len(card.layers), plan))


def ensure_benchmark_fits(
    settings: Settings, size: int, deposits: int, device: torch.device
) -> None:
    """Refuse a synthetic benchmark whose networks cannot be trained with images of that size."""
    step = _noised(settings.training.batch * deposits, settings.training)

    def needs(size: int) -> Needs:
        made = MOST_WORKERS * GENERATED_CELL * size**2  # images that are made ahead
        return Needs(made, training_bytes(settings, CHANNELS, size, step))

    _refuse(
        needs(size),
        device,
        f"Training with images of {size} px",
        ((f"images of {less} px", needs(less)) for less in _halves(size, SMALLEST_BENCHMARK)),
        otherwise="Use a smaller network (--preset quick).",
    )


def ensure_drawing_fits(
    card: ModelCard, grid: Grid, points: int, draws: int, device: torch.device
) -> int:
    """Refuse draws that cannot be held; give the side of what is looked at in one pass."""
    largest = ensure_mapping_fits(card, grid, device, 1 + len(card.others))
    window, local = card.window_size, card.settings.is_local

    def needs(points: int, draws: int, tile: int) -> Needs:
        wanted = points * draws
        network = drawing_bytes(card.settings, card.channels, window, wanted)
        if local:  # windows reach beyond the tile that they begin in
            around = tile + window + _margin(card)
            network += looking_bytes(card.settings, card.channels, around)
        return Needs(wanted * DRAWN_POINT, network)

    tiles = range(largest, SMALLEST_TILE - 1, -TILE_STEP) if local else [largest]
    tile = next((side for side in tiles if needs(points, draws, side).fit(device)), tiles[-1])
    _refuse(
        needs(points, draws, tile),
        device,
        f"Drawing {points * draws:,} points",
        ((f"--draws {fewer}", needs(points, fewer, tile)) for fewer in _halves(draws, 1)),
        ((f"--points {fewer}", needs(fewer, draws, tile)) for fewer in _halves(points, 1)),
        otherwise="Use fewer --points and --draws, or a model trained with a smaller --window.",
    )
    return tile


def _refuse(
    needs: Needs,
    device: torch.device,
    what: str,
    *levers: Iterator[tuple[str, Needs]],
    otherwise: str,
) -> None:
    """Refuse what does not fit, naming of each lever the first position that would."""
    found = []
    if not needs.fit(device):
        for lever in levers:
            found += [text for text, less in lever if less.fit(device)][:1]
    remedy = f"Use {' or '.join(found)}." if found else otherwise
    ensure_fits(*needs.tightest(device), what, remedy)


def _readable(grid: Grid) -> bool:
    return grid.height * grid.width <= MOST_CELLS


def _coarser(grid: Grid) -> Iterator[tuple[str, Grid]]:
    """The grid with cells twice as large, and again, until few are left."""
    size = max(grid.cell_size)
    while max(grid.height, grid.width) > 1:
        size *= 2
        height, width = math.ceil(grid.height / 2), math.ceil(grid.width / 2)
        grid = replace(grid, height=height, width=width)
        yield f"--resolution {size:.4g}", grid


def _sparser(plan: WindowPlan) -> Iterator[tuple[str, WindowPlan]]:
    """Larger strides, up to half a window."""
    for stride in range(plan.stride + 1, plan.size // 2 + 1):
        if plan.size % stride == 0 and plan.tile % stride == 0:
            yield f"--set windows.stride={stride}", replace(plan, stride=stride)


def _halves(number: int, least: int) -> Iterator[int]:
    """Half the number, and again, down to the least, in multiples of it."""
    while number > least:
        number = max(least, number // 2 // least * least)
        yield number
