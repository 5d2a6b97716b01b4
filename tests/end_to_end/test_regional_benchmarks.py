"""Tiny versions of the benchmarks of regional maps, by the real commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from geocfm.model.checkpoint import load_card
from small_data import TINY_NETWORK, SmallRegion, run_geocfm

VARIANTS = [
    "GeoCFM, windows with occurrences searched, without process",
    "GeoCFM, windows with occurrences searched, with process",
    "GeoCFM, all training tiles searched, without process",
    "GeoCFM, all training tiles searched, with process",
]
METHODS = [*VARIANTS, "Poisson process", "Uniform"]
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
    found = json.loads((out / "folds.json").read_text())
    best = found["geocfm_best_iterations"]
    assert list(best) == VARIANTS
    assert {len(steps) for steps in best.values()} == {2 * 2}  # networks of both folds
    assert found["Uniform"]["captured"]["area"] == pytest.approx(0.5)
    for method in METHODS:
        captured, lead = found[method]["captured"], found[method]["first_less_this"]
        assert captured["0.05"] <= captured["0.1"] <= captured["0.2"]
        for key, value in captured.items():
            assert 0 <= value <= 1
            difference = found[METHODS[0]]["captured"][key] - value
            assert lead[key]["difference"] == pytest.approx(difference)
            assert lead[key]["low"] <= lead[key]["difference"] <= lead[key]["high"]
    assert rows_of((out / "folds.md").read_text()) == [*METHODS, "chance"]
    area = {method: found[method]["captured"]["area"] for method in METHODS}
    for without, begun in (VARIANTS[:2], VARIANTS[2:]):
        assert area[without] != area[begun]  # each is another map
    assert {path.name for path in out.iterdir()} == {"folds.json", "folds.md"}


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
        for without, begun in (VARIANTS[:2], VARIANTS[2:]):
            # what single cells let one expect tells rich ground from poor without any training
            assert scores[begun]["kl"] < 0.9 * scores[without]["kl"]
    grounds, processes = ["window", "window", "region", "region"], [False, True] * 2
    for number, (ground, process) in enumerate(zip(grounds, processes, strict=True)):
        settings = load_card(out / f"model{number or ''}.safetensors").settings
        assert settings.training.ground == ground
        assert settings.network.process is process
