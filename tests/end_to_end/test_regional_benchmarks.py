"""Tiny versions of the benchmarks of regional maps, by the real commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_data import TINY_NETWORK, SmallRegion, run_geocfm

HOWS = {"average", "consistent", "head", "count"}
ESTIMATES = {"count-kde", "count-exact"}
METHODS = [
    "GeoCFM",
    "GeoCFM, windows by average",
    "GeoCFM, windows by consistent",
    "GeoCFM, windows by head",
    "GeoCFM, densities from draws (kde)",
    "Poisson process",
    "Uniform",
]
TRUTHS = ("intensity", "bayes")


def test_methods_are_cross_validated_on_the_same_occurrences(
    small_region: SmallRegion, tmp_path: Path
) -> None:
    out = tmp_path / "folds"
    done = run_geocfm(
        *("benchmark", "folds", *small_region.raster_options),
        *("--occurrences", small_region.occurrences, *TINY_NETWORK, "--folds", 2, "--ensemble", 2),
        *("--iterations", 10, "--baselines", "ipp,uniform", "--ways", "all", "--out", out),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((out / "folds.json").read_text())
    assert len(found["geocfm_best_iterations"]) == 2 * 2  # networks of both folds
    assert found["Uniform"]["captured"]["area"] == pytest.approx(0.5)
    for method in METHODS:
        captured, lead = found[method]["captured"], found[method]["geocfm_less_this"]
        assert captured["0.05"] <= captured["0.1"] <= captured["0.2"]
        for key, value in captured.items():
            assert 0 <= value <= 1
            difference = found["GeoCFM"]["captured"][key] - value
            assert lead[key]["difference"] == pytest.approx(difference)
            assert lead[key]["low"] <= lead[key]["difference"] <= lead[key]["high"]
    table = (out / "folds.md").read_text()
    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("|")]
    assert rows[2:] == [*METHODS, "chance"]
    areas = [found[method]["captured"]["area"] for method in METHODS]
    assert len(set(areas)) == len(areas)  # each way gives another map
    assert {path.name for path in out.iterdir()} == {"folds.json", "folds.md"}


def test_ways_to_combine_windows_are_held_against_the_truth(tmp_path: Path) -> None:
    out = tmp_path / "mosaic"
    done = run_geocfm(
        *("benchmark", "mosaic", "--size", 128, "--bodies", 6, "--window", 32),
        *("--iterations", 3, "--out", out),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((out / "mosaic.json").read_text())
    for truth in TRUTHS:
        assert {score["name"] for score in found[truth]} >= HOWS
        for score in found[truth]:
            assert score["kl"] > 0
            assert -1 <= score["rank"] <= 1
            assert 0 <= score["capture"] <= 1
        # what single cells let one expect tells rich windows from poor ones without any training
        divergence = {score["name"]: score["kl"] for score in found[truth]}
        assert divergence["count"] < 0.9 * divergence["average"]
    assert not list(out.glob(".*"))  # nothing is left of the work


def test_ways_to_find_densities_are_held_against_the_truth(tmp_path: Path) -> None:
    out = tmp_path / "mosaic"
    done = run_geocfm(
        *("benchmark", "mosaic", "--size", 64, "--bodies", 3, "--window", 32),
        *("--iterations", 3, "--density", "all", "--out", out),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((out / "mosaic.json").read_text())
    for truth in TRUTHS:
        scores = {score["name"]: score for score in found[truth]}
        assert scores.keys() >= HOWS | ESTIMATES
        by_head, exact = scores["count"]["kl"], scores["count-exact"]["kl"]
        assert exact == pytest.approx(by_head, rel=0.1)  # the flow is anchored on the head
        assert len({by_head, exact, scores["count-kde"]["kl"]}) == 3
        assert scores["count-exact"]["seconds"] > scores["count"]["seconds"] > 0
        assert scores["whole"]["seconds"] is None
