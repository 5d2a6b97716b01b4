"""Tiny versions of the benchmarks of regional maps, by the real commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from geocfm.model.checkpoint import load_card
from small_data import TINY_NETWORK, SmallRegion, run_geocfm

GROUNDS = {"window": "windows with occurrences", "region": "all training tiles"}
STARTS = {"even": "nothing", "process": "a process", "stack": "a stack"}
VARIANTS = [
    f"GeoCFM, {ground} searched, from {start}"
    for ground in GROUNDS.values()
    for start in STARTS.values()
]
PARTS = {
    "process": "its process of single cells alone",
    "forest": "its forest of single cells alone",
    "start": "what it begins with: both",
}
METHODS = [*VARIANTS, *PARTS.values(), "Poisson process", "Uniform"]
TRUTHS = {"intensity": "the truth", "bayes": "what can be known"}


def rows_of(table: str) -> list[str]:
    """The first cells of the rows of tables as Markdown, without those of the headings."""
    lines = table.splitlines()
    cells = [line.split("|")[1].strip() for line in lines if line.startswith("|")]
    return [cell for cell in cells if cell not in ("method", "model", "---")]


def test_methods_are_cross_validated_on_the_same_occurrences(
    small_region: SmallRegion, tmp_path: Path
) -> None:
    out = tmp_path / "folds"
    done = run_geocfm(
        *("benchmark", "folds", *small_region.raster_options),
        *("--occurrences", small_region.occurrences, *TINY_NETWORK, "--folds", 2, "--ensemble", 2),
        *("--iterations", 10, "--baselines", "ipp,uniform", "--variants", "all", "--out", out),
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((out / "folds.json").read_text())["studies"][""]
    assert set(found) == set(METHODS)
    assert found["Uniform"]["scores"] == pytest.approx(
        {"area": 0.5, "0.05": 0.05, "0.1": 0.1, "nats": 0.0}, abs=1e-6
    )
    for method in METHODS:
        scores, lead = found[method]["scores"], found[method]["first_less_this"]
        assert 0 <= scores["0.05"] <= scores["0.1"] <= 1
        for key, value in scores.items():
            difference = found[VARIANTS[0]]["scores"][key] - value
            assert lead[key]["difference"] == pytest.approx(difference)
            assert lead[key]["low"] <= lead[key]["high"]
    assert set(rows_of((out / "folds.md").read_text())) == {*METHODS, "chance"}
    area = {method: found[method]["scores"]["area"] for method in METHODS}
    for first in (0, 3):
        assert len({area[variant] for variant in VARIANTS[first : first + 3]}) == 3
    assert {path.name for path in out.iterdir()} == {"folds.json", "folds.md"}


def test_commodities_are_studied_one_by_one_and_together(
    small_region: SmallRegion, tmp_path: Path
) -> None:
    out = tmp_path / "folds"
    command = (
        *("benchmark", "folds", *small_region.raster_options),
        *("--occurrences", small_region.occurrences, *TINY_NETWORK, "--folds", 2),
        *("--set", "network.start=process", "--iterations", 2, "--baselines", "uniform"),
        *("--column", "commodity", "--values", "gold,copper"),
        *("--out", out),
    )
    done = run_geocfm(*command, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((out / "folds.json").read_text())["studies"]
    assert list(found) == ["gold", "copper"]
    methods = ["GeoCFM", PARTS["process"], "Uniform"]
    assert all(set(study) == set(methods) for study in found.values())
    rows = rows_of((out / "folds.md").read_text())
    assert rows == [*methods, "chance"] * (len(found) + 1)
    assert "all 2 together" in (out / "folds.md").read_text()


@pytest.mark.parametrize(
    "options",
    [
        ("--column", "commodity"),
        ("--values", "gold"),
        ("--column", "commodity", "--values", " , "),
    ],
    ids=["no values", "no column", "values that name nothing"],
)
def test_studies_that_are_none_are_refused(
    options: tuple[str, ...],
    refused: Callable[..., str],
    small_region: SmallRegion,
    tmp_path: Path,
) -> None:
    command = ["benchmark", "folds", *small_region.raster_options]
    given = ["--occurrences", small_region.occurrences, *options, "--iterations", 1]
    refused([*command, *given, "--out", tmp_path / "folds"], "belong together")


def test_studies_with_tiles_of_different_sizes_are_refused(
    refused: Callable[..., str], small_region: SmallRegion, tmp_path: Path, monkeypatch: Any
) -> None:
    # the fewer the occurrences, the larger their windows, and the tiles with them
    many = len(small_region.points) // 2
    monkeypatch.setattr("geocfm.data.windows._choose_tile", lambda grid, size: 2 * size)
    monkeypatch.setattr(
        "geocfm.data.windows._choose_size", lambda grid, count: 16 if count > many else 32
    )
    command = ["benchmark", "folds", *small_region.raster_options]
    given = ["--occurrences", small_region.occurrences, "--iterations", 1]
    studies = ["--column", "commodity", "--values", "gold,copper"]
    said = refused([*command, *given, *studies, "--out", tmp_path / "folds"])
    assert "need tiles of one size" in said


def test_variants_of_a_preset_that_has_none_are_refused(
    refused: Callable[..., str], small_region: SmallRegion, tmp_path: Path
) -> None:
    refused(
        [
            *("benchmark", "folds", *small_region.raster_options),
            *("--occurrences", small_region.occurrences, *TINY_NETWORK, "--folds", 2),
            *("--preset", "paper-earthmri", "--iterations", 2, "--baselines", "none"),
            *("--variants", "all", "--out", tmp_path / "folds"),
        ]
    )


def test_a_map_is_held_against_the_truth(tmp_path: Path) -> None:
    out = tmp_path / "mosaic"
    done = run_geocfm(
        *("benchmark", "mosaic", "--size", 128, "--bodies", 6, "--window", 32),
        *("--iterations", 3, "--out", out),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((out / "mosaic.json").read_text())
    for truth in TRUTHS:
        (score,) = found[truth]
        assert score["title"] == "GeoCFM"
        assert score["kl"] > 0
        assert score["kl_held_out"] > 0
        assert -1 <= score["rank"] <= 1
        assert 0 <= score["capture"] <= 1
        assert 0 <= score["capture_held_out"] <= 1
        assert score["seconds"] > 0
    table = (out / "mosaic.md").read_text()
    assert rows_of(table) == ["GeoCFM"] * len(TRUTHS)
    for meant in TRUTHS.values():
        assert f"The map against {meant}" in table
    names = {path.name for path in out.iterdir()}
    assert names >= {"mosaic.json", "mosaic.md", "region", "model.safetensors", "model.tif"}
    assert not list(out.glob(".*"))  # nothing is left of the work


def test_variants_are_held_against_the_truth(tmp_path: Path) -> None:
    out = tmp_path / "mosaic"
    done = run_geocfm(
        *("benchmark", "mosaic", "--size", 64, "--bodies", 3, "--window", 32),
        *("--iterations", 3, "--variants", "all", "--out", out),
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((out / "mosaic.json").read_text())
    for truth in TRUTHS:
        scores = {score["title"]: score for score in found[truth]}
        assert list(scores) == VARIANTS
        for first in (0, 3):
            without, *begun = VARIANTS[first : first + 3]
            # what single cells let one expect tells rich ground from poor without any training
            assert all(scores[one]["kl"] < 0.9 * scores[without]["kl"] for one in begun)
    expected = [(ground, start) for ground in GROUNDS for start in STARTS]
    for number, (ground, start) in enumerate(expected):
        settings = load_card(out / f"model{number or ''}.safetensors").settings
        assert settings.training.ground == ground
        assert settings.network.start == start
