"""One streaming pass over the layers: statistics by tile, footprint counts, classes, points.

Memory does not grow with the raster: a piece of one tile is held at a time. Statistics are kept
by tile, so that only training tiles need enter the standardisation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from geocfm.data.encoding import data_mask, some_data
from geocfm.data.oddities import Oddities
from geocfm.data.split import TRAIN, Split
from geocfm.data.windows import Starts, blocks, lattice_sums
from geocfm.errors import UserError
from geocfm.geo.grid import Grid, Window
from geocfm.geo.rasters import Layer, Stack
from geocfm.model.checkpoint import LayerCard

MOST_CLASSES = 32
LARGEST_CODE = 2**53  # up to here float64 holds every whole number
CACHE_BYTES = 512 * 2**20  # stacks up to this size are kept in memory after the pass

Progress = Callable[[int, int], None]


@dataclass
class Scan:
    """What the pass found. Tiles and layers index the statistics' rows and columns."""

    counts: NDArray[np.int64]
    means: NDArray[np.float64]
    squares: NDArray[np.float64]  # sums of squared deviations from the tile's mean
    infinite: NDArray[np.int64]
    fractional: NDArray[np.bool_]  # layers given as classes that hold other than whole numbers
    footprint_cells: NDArray[np.int64]  # cells with data, per stride x stride lattice cell
    stride: int
    on_data: NDArray[np.bool_]  # per occurrence
    classes: list[Counter[int]]
    oddities: list[Oddities]
    cache: NDArray[np.floating] | None = field(repr=False)

    def coverage(self, grid: Grid) -> NDArray[np.float64]:
        """Share of the grid's cells where each layer has data."""
        return self.counts.sum(axis=0) / (grid.height * grid.width)

    def footprint_share(self, starts: Starts, size: int) -> NDArray[np.float64]:
        """Share of each lattice window's cells with data in some layer."""
        return lattice_sums(self.footprint_cells, starts, size, self.stride) / size**2

    def filler(self, layer: int) -> float | None:
        """A value of a layer that seems to stand for no data though the file does not say so."""
        counts = self.counts[:, layer]
        mean, std = merge_statistics(counts, self.means[:, layer], self.squares[:, layer])
        return self.oddities[layer].filler(int(counts.sum()), mean, std)

    def layer_cards(self, layers: list[Layer], split: Split) -> tuple[LayerCard, ...]:
        """Statistics of the training tiles (of all tiles for a layer with no data in those)."""
        training = split.roles.ravel() == TRAIN
        cards = []
        for index, layer in enumerate(layers):
            use = training if self.counts[training, index].any() else np.ones_like(training)
            mean, std = merge_statistics(
                self.counts[use, index], self.means[use, index], self.squares[use, index]
            )
            common = [value for value, _ in self.classes[index].most_common(MOST_CLASSES)]
            cards.append(
                LayerCard(
                    name=layer.name,
                    units=layer.units,
                    categorical=layer.categorical,
                    mean=mean,
                    std=std,
                    classes=tuple(sorted(common)) if layer.categorical else (),
                )
            )
        return tuple(cards)


def merge_statistics(
    counts: NDArray[np.int64], means: NDArray[np.float64], squares: NDArray[np.float64]
) -> tuple[float, float]:
    """Mean and standard deviation of the union of parts (Chan et al. 1979)."""
    total = counts.sum()
    if not total:
        return 0.0, 0.0
    mean = float((counts * means).sum() / total)
    deviation = squares.sum() + (counts * (means - mean) ** 2).sum()
    return mean, float(np.sqrt(deviation / total))


def scan_layers(
    stack: Stack,
    split: Split,
    stride: int,
    points: NDArray[np.float64],
    zero_is_nodata: bool,
    progress: Progress,
) -> Scan:
    """Read every cell once, tile by tile. points: (N, 2) as (column, row)."""
    grid = stack.grid
    tiles = split.tiles()
    layers = len(stack.layers)
    shape = (len(tiles), layers)
    keep = layers * grid.height * grid.width * np.dtype(stack.dtype).itemsize <= CACHE_BYTES
    scan = Scan(
        counts=np.zeros(shape, dtype=np.int64),
        means=np.zeros(shape),
        squares=np.zeros(shape),
        infinite=np.zeros(layers, dtype=np.int64),
        fractional=np.zeros(layers, dtype=np.bool_),
        footprint_cells=np.zeros((-(-grid.height // stride), -(-grid.width // stride)), np.int64),
        stride=stride,
        on_data=np.zeros(len(points), dtype=np.bool_),
        classes=[Counter() for _ in range(layers)],
        oddities=[Oddities(layer) for layer in stack.layers],
        cache=np.empty((layers, grid.height, grid.width), stack.dtype) if keep else None,
    )
    cells = np.floor(points).astype(np.int64)
    done, total = 0, grid.height * grid.width
    for number, (tile, _) in enumerate(tiles):
        for block in blocks(tile, stride):
            values = stack.read(block)
            if scan.cache is not None:
                scan.cache[(slice(None), *block.slices_in(grid.window()))] = values
            valid = data_mask(values, zero_is_nodata)
            scan.infinite += np.isinf(values).sum(axis=(1, 2))
            for index in range(layers):
                _add_block(scan, number, index, values[index][valid[index]])
            footprint = some_data(valid)
            _count_footprint(scan, block, footprint)
            row, col = cells[:, 1] - block.row, cells[:, 0] - block.col
            here = (row >= 0) & (row < block.height) & (col >= 0) & (col < block.width)
            scan.on_data[here] = footprint[row[here], col[here]]
            done += block.cells
            progress(done, total)
    return scan


def _add_block(scan: Scan, tile: int, layer: int, values: NDArray[np.floating]) -> None:
    if not values.size:
        return
    if scan.oddities[layer].layer.categorical:
        _refuse_endless_codes(scan.oddities[layer].layer, values)
    exact = values.astype(np.float64)
    mean, square = exact.mean(), ((exact - exact.mean()) ** 2).sum()
    before, gap = scan.counts[tile, layer], mean - scan.means[tile, layer]
    total = before + values.size
    scan.means[tile, layer] += gap * values.size / total
    scan.squares[tile, layer] += square + gap**2 * before * values.size / total
    scan.counts[tile, layer] = total
    scan.oddities[layer].add(values)
    if scan.oddities[layer].layer.categorical:
        scan.fractional[layer] |= bool((values != np.rint(values)).any())
        found, often = np.unique(values.astype(np.int64), return_counts=True)
        scan.classes[layer].update(dict(zip(found.tolist(), often.tolist(), strict=True)))


def _refuse_endless_codes(layer: Layer, values: NDArray[np.floating]) -> None:
    largest = float(values[np.abs(values).argmax()])
    if abs(largest) > LARGEST_CODE:
        raise UserError(
            f"Layer {layer.name} is given as classes but holds {largest:.17g}; codes above "
            f"{LARGEST_CODE:,} cannot be told apart.",
            "Number its classes anew (QGIS: Reclassify by table), or leave it out of --classes.",
        )


def _count_footprint(scan: Scan, block: Window, footprint: NDArray[np.bool_]) -> None:
    stride = scan.stride
    rows = np.add.reduceat(footprint, np.arange(0, block.height, stride), axis=0, dtype=np.int64)
    sums = np.add.reduceat(rows, np.arange(0, block.width, stride), axis=1)
    row, col = block.row // stride, block.col // stride
    scan.footprint_cells[row : row + sums.shape[0], col : col + sums.shape[1]] += sums
