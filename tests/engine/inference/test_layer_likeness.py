"""Layers that are like those of training, unlike them, or under each other's names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from geocfm.geo.area import Area
from geocfm.geo.grid import Grid, Window
from geocfm.inference.layer_likeness import doubts_about_layers
from geocfm.model.checkpoint import LayerCard
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.transform import Affine
from shapely import box
from small_data import SmallRegion

SAMPLE = Path(__file__).resolve().parents[3] / "resources" / "sample" / "rasters"


@dataclass(frozen=True)
class InMemory:
    """Layers (L, H, W) that are held as they are."""

    values: NDArray[np.float32]

    @property
    def grid(self) -> Grid:
        place = Affine(500, 0, 355_000, 0, -500, 7_100_000)
        return Grid(CRS.from_epsg(20350), place, *self.values.shape[1:])

    def read(self, window: Window) -> NDArray[np.float32]:
        return self.values[(slice(None), *window.slices_in(self.grid.window()))]


@pytest.fixture(scope="module")
def sample() -> dict[str, NDArray[np.float32]]:
    """The layers of the Murchison."""
    layers = {}
    for path in sorted(SAMPLE.glob("*.tif")):
        with rasterio.open(path) as raster:
            layers[path.stem] = raster.read(1, masked=True).astype("float32").filled(np.nan)
    return layers


def cards(layers: dict[str, NDArray[Any]]) -> list[LayerCard]:
    return [
        LayerCard(name=name, mean=float(np.nanmean(values)), std=float(np.nanstd(values)))
        for name, values in layers.items()
    ]


def doubts(layers: dict[str, NDArray[Any]], known: list[LayerCard], **more: Any) -> list[str]:
    return doubts_about_layers(InMemory(np.stack(list(layers.values()))), known, **more)


def parts(layers: dict[str, NDArray[Any]], down: int, across: int) -> list[dict[str, NDArray[Any]]]:
    """The region cut into down x across regions of its kind."""
    return [
        {
            name: part
            for name, values in layers.items()
            for part in [np.array_split(np.array_split(values, down)[i], across, axis=1)[j]]
        }
        for i in range(down)
        for j in range(across)
    ]


@pytest.mark.parametrize(("down", "across"), [(1, 2), (2, 1), (2, 2), (3, 3)])
def test_another_part_of_the_region_is_no_cause_for_doubt(
    sample: dict[str, NDArray[Any]], down: int, across: int
) -> None:
    for learned, mapped in permutations(parts(sample, down, across), 2):
        assert doubts(mapped, cards(learned)) == []


@pytest.mark.parametrize("elsewhere", [False, True])
def test_exchanged_layers_are_named(sample: dict[str, NDArray[Any]], elsewhere: bool) -> None:
    # nothing tells the two distances apart, and in another half the two shares
    alike = [{"dist_fault", "dist_greenstone_signed"}]
    if elsewhere:
        alike.append({"fault_density", "greenstone"})
    learned, mapped = parts(sample, 2, 1) if elsewhere else (sample, sample)
    known = cards(learned)
    for first, second in combinations(sample, 2):
        if {first, second} not in alike:
            (said,) = doubts({**mapped, first: mapped[second], second: mapped[first]}, known)
            assert said.startswith(f"The layers '{first}' and '{second}' seem to be exchanged")


@pytest.mark.parametrize("change", [lambda v: v * 1000, lambda v: v + 40, lambda v: -v - 90])
def test_another_quantity_is_named(change: Callable[[Any], Any]) -> None:
    generator = np.random.default_rng(5)
    layers = {name: generator.normal(10, 4, (90, 80)) for name in ("mag", "grav")}
    (said,) = doubts({**layers, "grav": change(layers["grav"])}, cards(layers))
    assert said.startswith("Layer grav is unlike the one that the model learned from")


def test_exchanged_classes_are_named_and_other_shares_of_them_are_not() -> None:
    generator = np.random.default_rng(5)
    drawn = {"rock": generator.choice([1, 2, 7], (90, 80)), "unit": 100 + np.arange(80) % 40}
    layers = {name: np.broadcast_to(codes, (90, 80)).astype(float) for name, codes in drawn.items()}
    known = [card.model_copy(update={"categorical": True}) for card in cards(layers)]
    assert doubts({**layers, "rock": np.full((90, 80), 7.0)}, known) == []
    (said,) = doubts({"rock": layers["unit"], "unit": layers["rock"]}, known)
    assert said.startswith("The layers 'rock' and 'unit' seem to be exchanged")


def test_a_class_layer_is_not_taken_for_a_measurement() -> None:
    generator = np.random.default_rng(5)
    layers = {"rock": generator.normal(5, 1, (90, 80)), "mag": generator.normal(90, 1, (90, 80))}
    rock, mag = cards(layers)
    known = [rock.model_copy(update={"categorical": True}), mag]
    said = doubts({"rock": layers["mag"], "mag": layers["rock"]}, known)
    assert [sentence.split(" is ")[0] for sentence in said] == ["Layer mag"]


def test_constants_and_few_cells_are_not_judged() -> None:
    known = [
        LayerCard(name="rock", categorical=True, mean=1, std=1, classes=(1, 2)),
        LayerCard(name="same", mean=5, std=0),
        LayerCard(name="rare", mean=5, std=1),
        LayerCard(name="narrow", mean=5, std=1),
    ]
    values = np.full((4, 60, 60), 1000, np.float32)
    values[2] = np.nan
    values[2, :3, :3] = 1000
    values[3] = 5.5  # a part of a region may hardly vary
    assert doubts_about_layers(InMemory(values), known) == []


def test_only_the_area_counts() -> None:
    layers = {"mag": np.random.default_rng(5).normal(10, 4, (90, 80))}
    known = cards(layers)
    layers["mag"][:, 40:] += 1000
    grid = InMemory(np.stack(list(layers.values()))).grid
    assert doubts(layers, known) != []
    assert doubts(layers, known, area=Area(box(0, 0, 40, 90), grid)) == []


def test_a_map_warns_of_exchanged_layers(
    geocfm: Callable[..., Any], trained: Any, small_region: SmallRegion, tmp_path: Path
) -> None:
    for exchanged in (False, True):
        names = ["slope", "ridge"] if exchanged else ["ridge", "slope"]
        layers: list[object] = ["--raster", small_region.raster("noise")]
        for name, own in zip(names, ("ridge", "slope"), strict=True):
            layers += ["--raster", f"{name}={small_region.raster(own)}"]
        arguments = ["--checkpoint", trained.checkpoint, *layers]
        mapped = geocfm("map", *arguments, "--out", tmp_path / f"{exchanged}.tif")
        drawn = geocfm("sample", *arguments, "--points", 9, "--out", tmp_path / f"{exchanged}.csv")
        for result in (mapped, drawn):
            assert result.exit_code == 0, result.output
            said = "The layers 'ridge' and 'slope' seem to be exchanged" in result.output
            assert said is exchanged
            assert ("Note:" in result.output) is exchanged
