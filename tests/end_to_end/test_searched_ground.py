"""The ground that counts as searched: chosen, told by the model and its report, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_data import ALONE, TINY_NETWORK, SmallRegion, json_lines

Geocfm = Callable[..., Any]
Refused = Callable[..., str]

REGION = "Searched ground: all training tiles count as evenly searched"
AROUND = "Searched ground: only the 32 cells around known occurrences count as evenly searched"
BEGUN_WITH = "corrects a Poisson process of single cells, for which all training tiles count"
REMEDY = "a model trained with --positive-only does not do this"
WITH, WITHOUT = (("--set", f"network.start={start}") for start in ("process", "even"))


def training(region: SmallRegion, out: Path, *more: object) -> list[object]:
    return [
        *("train", *region.raster_options, "--occurrences", region.occurrences, *TINY_NETWORK),
        *("--iterations", 2, *more, "--out", out),
    ]


@pytest.mark.parametrize(
    ("options", "ground", "start", "words"),
    [
        (("--ground", "region", *WITH), "region", "process", (REGION, REMEDY)),
        (("--ground", "region", *WITHOUT), "region", "even", (REGION, REMEDY)),
        (("--ground", "window", *WITH), "window", "process", (BEGUN_WITH, REMEDY)),
        (("--ground", "window", *WITHOUT), "window", "even", (AROUND,)),
        (("--positive-only",), "window", "even", (AROUND,)),
        (("--positive-only", "--ground", "window"), "window", "even", (AROUND,)),
        (("--positive-only", *WITH), "window", "even", (AROUND,)),
        (("--set", "training.ground=region", *WITH), "region", "process", (REGION, REMEDY)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_the_card_and_the_report_tell_which_ground_counted_as_searched(
    options: tuple[str, ...],
    ground: str,
    start: str,
    words: tuple[str, ...],
    geocfm: Geocfm,
    small_region: SmallRegion,
    tmp_path: Path,
) -> None:
    out = tmp_path / "model.safetensors"
    trained = geocfm(*training(small_region, out, *ALONE, *options))
    assert trained.exit_code == 0, trained.output
    events = json_lines(geocfm("info", out, "--json").stdout)
    (model,) = [e["content"] for e in events if e["event"] == "report"]
    assert model["settings"]["training"]["ground"] == ground
    assert model["settings"]["network"]["start"] == start
    (told,) = [
        e["text"] for e in events if e["event"] == "note" and e["text"].startswith("Searched")
    ]
    for word in words:
        assert word in told
    report = json.loads((tmp_path / "model.report.json").read_text(encoding="utf-8"))
    assert report["model"]["searched"] == told
    assert told in " ".join(page_text(tmp_path / "model.report.html").split())


def page_text(path: Path) -> str:
    """A page as text, as far as the sentences asked for here hold no markup."""
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--positive-only", "--ground", "region"),
            ("--ground region counts ground without occurrences as searched", "Leave one of them"),
        ),
        (
            ("--ground", "region", "--preset", "paper-earthmri"),
            ("The preset paper-earthmri knows windows alone", "Leave out --ground"),
        ),
        (
            ("--positive-only", "--preset", "paper-synthetic"),
            ("The preset paper-synthetic knows windows alone", "--positive-only"),
        ),
        (
            ("--set", "training.ground=region", "--preset", "paper-earthmri"),
            ("Only a density head compares windows", "training.ground=window"),
        ),
        (("--ground", "tile"), ("--ground", "auto", "window", "region")),
    ],
    ids=lambda value: " ".join(value) if value[0].startswith("--") else "",
)
def test_grounds_that_do_not_go_together_are_refused(
    options: tuple[str, ...],
    words: tuple[str, ...],
    refused: Refused,
    small_region: SmallRegion,
    tmp_path: Path,
) -> None:
    refused(training(small_region, tmp_path / "model.safetensors", *options), *words)


def test_options_of_before_are_refused(
    refused: Refused, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    given = ("--checkpoint", trained.checkpoint, *small_region.raster_options)
    for option in ("--combine", "--density"):
        refused(["map", *given, option, "head", "--out", tmp_path / "map.tif"], option)
    for setting in ("network.count=true", "sampling.views=2"):
        refused(
            training(small_region, tmp_path / "m.safetensors", "--set", setting),
            f"There is no setting '{setting.partition('=')[0]}'",
        )
