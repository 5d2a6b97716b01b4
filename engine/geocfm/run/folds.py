"""Spatial cross-validation: every tile is mapped once by a model that never saw it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import rasterio
import torch
from pydantic import TypeAdapter

from geocfm.data.region import Region
from geocfm.data.split import TEST, Split, fold_splits
from geocfm.data.windows import blocks
from geocfm.errors import UserError
from geocfm.evaluation.evaluate import Evaluation, evaluate_map
from geocfm.evaluation.rates import RateCurve, rate_curve
from geocfm.events import Reporter
from geocfm.geo.writing import open_raster_for_blocks
from geocfm.inference.model_map import map_source
from geocfm.inference.parts import Parts
from geocfm.inference.predictor import Predictor
from geocfm.inference.regional_map import RawMap, write_raw_map
from geocfm.model.checkpoint import Checkpoint, ModelCard
from geocfm.model.network import VelocityNetwork
from geocfm.model.settings import Settings
from geocfm.run.needs import ensure_mapping_fits
from geocfm.training.members import ensemble_of, fit_member
from geocfm.training.resume import Snapshot
from geocfm.training.shrink import with_share

REPORTED_SHARE = 0.1  # of the area
PARTS = {
    "process": "its process of single cells alone",
    "forest": "its forest of single cells alone",
    "start": "what it begins with: both",
}
OUT_OF_FOLD = (
    "Out-of-fold map: each tile by a model that was trained without it. Density relative to the "
    "mean of the region, as in a map."
)


@dataclass(frozen=True)
class CrossValidation:
    """The out-of-fold map, how well it finds all occurrences, and the steps that were best."""

    raw: RawMap
    rates: RateCurve | None
    best_iterations: tuple[int, ...]
    parts: dict[str, RawMap]  # of what the networks begin with, by title; if they were asked for

    @property
    def iterations(self) -> int:
        """What validation chose, in the middle of all trainings; 0 if what they began with."""
        return round(median(self.best_iterations))

    def sentences(self) -> list[str]:
        """What came out, for people."""
        if self.rates is None:
            return []
        at = next(one for one in self.rates.at if one.area_share == REPORTED_SHARE)
        found, under = at.captured, self.rates.under_curve
        between = ""
        if found.low is not None and found.high is not None:
            between = f" ({100 * found.low:.0f} to {100 * found.high:.0f} % by tiles)"
        return [
            f"Cross-validation: the most prospective {100 * REPORTED_SHARE:.0f} % of the area "
            f"holds {100 * found.value:.0f} %{between} of the {self.rates.occurrences} "
            f"occurrences, each mapped by a model that had not seen its tile; area under the "
            f"curve {under.value:.2f}.",
            f"Validation chose {self.iterations} iterations; the model is now trained on all "
            "tiles for as many."
            if self.iterations
            else "Validation chose what the networks began with: they added nothing here, and the "
            "model is what one begins with on all tiles.",
        ]

    def to_dict(self) -> dict[str, Any]:
        """For the JSON file."""
        return {
            "best_iterations": list(self.best_iterations),
            "iterations": self.iterations,
            "rates": None if self.rates is None else asdict(self.rates),
        }


def cross_validate(
    region: Region,
    settings: Settings,
    folds: int,
    members: int,
    seed: int,
    card: Callable[[Region, Snapshot], ModelCard],
    device: torch.device,
    folder: Path,
    reporter: Reporter,
    *,
    with_parts: bool = False,
) -> CrossValidation:
    """Train on all folds but one, map that one, and so with each; put the maps together.

    Each fold's map has mean 1 over the region, so folds compare.
    """
    splits = folds_of(region, folds)
    best: list[int] = []
    maps: list[RawMap] = []
    begun: dict[str, list[RawMap]] = {}
    for number, split in enumerate(splits):
        fold = region.with_split(split)
        own = folder / f"fold-{number + 1}"
        networks = []
        described = card(fold, Snapshot({}, 0, {}))
        for member in ensemble_of(fold, settings, described.channels, members, seed):
            title = f"Training fold {number + 1} of {folds}"
            if members > 1:
                title += f", member {member.number + 1}"
            snapshot = fit_member(member, device, own / f"member-{member.number}", reporter, title)
            best.append(snapshot.iteration)
            networks.append(_network(snapshot, described, device))
        checkpoint = Checkpoint(tuple(networks), card(fold, snapshot))
        maps.append(_map(checkpoint, fold, seed, own, device, reporter, number + 1))
        if with_parts and settings.network.begins:
            parts = PARTS if settings.network.start == "stack" else {"process": PARTS["process"]}
            for name, title in parts.items():
                part = _part(checkpoint, name)
                place = own / name
                raw = _map(part, fold, seed, place, device, reporter, number + 1)
                begun.setdefault(title, []).append(raw)
    raw = out_of_fold(folder / "folds.tif", region, splits, maps)
    put_together = {
        title: out_of_fold(folder / f"folds-{number}.tif", region, splits, made)
        for number, (title, made) in enumerate(begun.items())
    }
    return CrossValidation(raw, pooled_rates(raw, region), tuple(best), put_together)


def _part(checkpoint: Checkpoint, name: str) -> Checkpoint:
    """What the networks begin with, as a model of one network that corrects nothing."""
    first = checkpoint.network
    network = VelocityNetwork(checkpoint.card.channels, first.settings)
    network.load_state_dict(with_share(first.state_dict(), 0.0))
    if name != "start":
        network.start.shares.copy_(torch.tensor([1.0, 0.0] if name == "process" else [0.0, 1.0]))
    card = checkpoint.card.model_copy(update={"others": []})
    return Checkpoint((network.eval().requires_grad_(False),), card)


def read_pooled_rates(figures: Path, card: ModelCard) -> RateCurve | None:
    """What cross-validation found when the model was made; None where its file is not the model's.

    figures: what a training with folds leaves beside its model.
    """
    try:
        found = json.loads(figures.read_text(encoding="utf-8"))
        if found["provenance"] != card.provenance:  # of another run
            return None
        return TypeAdapter(RateCurve | None).validate_python(found["rates"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def all_of_role(split: Split, role: int) -> Split:
    """The same tiles, all of one role."""
    return replace(split, roles=np.full_like(split.roles, role))


def pooled_rates(raw: RawMap, region: Region) -> RateCurve | None:
    """The prediction rates of all folds together, with bands by tile."""
    found = evaluate_out_of_fold(raw, region)
    known = np.isfinite(found.densities)
    tiles = region.split.tile_of_points(region.points[known])
    return rate_curve(found.test, found.densities[known], tiles)


def evaluate_out_of_fold(raw: RawMap, region: Region) -> Evaluation:
    """Every tile is a test tile: it was mapped by a model that had not seen it."""
    tested = all_of_role(region.split, TEST)
    return evaluate_map(raw, region.grid, region.points, tested, region.grid)


def folds_of(region: Region, folds: int) -> list[Split]:
    """The splits of so many folds, each with occurrences to learn from."""
    splits = fold_splits(region.split, region.points, folds, region.settings)
    if not all(len(region.with_split(split).starts["train"]) for split in splits):
        raise UserError(
            f"With {folds} folds no occurrence is left to learn from in one of them.",
            "Use smaller tiles (--tile), a smaller window (--window), or other --folds.",
        )
    return splits


def _network(snapshot: Snapshot, card: ModelCard, device: torch.device) -> VelocityNetwork:
    network = VelocityNetwork(card.channels, card.settings.network)
    network.load_state_dict(snapshot.weights)
    return network.eval().requires_grad_(False).to(device)


def _map(
    checkpoint: Checkpoint,
    region: Region,
    seed: int,
    folder: Path,
    device: torch.device,
    reporter: Reporter,
    number: int,
) -> RawMap:
    card = checkpoint.card
    tile = ensure_mapping_fits(card, region.grid, device, len(checkpoint.networks))
    predictor = Predictor(checkpoint, region, card.settings.sampling, device)
    source = map_source(predictor, None, seed, tile)
    stage = reporter.stage(f"Mapping fold {number}")
    return write_raw_map(folder / "raw.tif", source, None, Parts(folder / "strips"), stage)


def out_of_fold(path: Path, region: Region, splits: list[Split], maps: list[RawMap]) -> RawMap:
    """A raster with each cell from the map whose model had it for a test tile."""
    grid = region.grid
    total = area_km2 = 0.0
    with open_raster_for_blocks(path, grid) as raster:
        for block in blocks(grid.window(), 1):
            rows = np.arange(block.row, block.row_stop, dtype=np.float64) + 0.5
            cols = np.arange(block.col, block.col_stop, dtype=np.float64) + 0.5
            values = np.full((block.height, block.width), np.nan, dtype=np.float32)
            for split, one in zip(splits, maps, strict=True):
                with rasterio.open(one.path) as source:
                    density = source.read(1, window=block.to_rasterio()) / one.mean
                mine = split.role_of_cells(rows, cols) == TEST
                values[mine] = density[mine]
            valid = np.isfinite(values)
            km2 = np.broadcast_to(grid.cell_areas(block), values.shape)
            total += float((values[valid] * km2[valid]).sum(dtype=np.float64))
            area_km2 += float(km2[valid].sum())
            raster.write(values, 1, window=block.to_rasterio())
    return RawMap(path, total / max(area_km2, 1e-300), area_km2)
