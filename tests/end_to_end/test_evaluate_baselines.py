"""A model beside other methods, by ``geocfm evaluate --baselines``."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import shapely
from geocfm.errors import Cancelled
from geocfm.evaluation.comparison import FEW_TILES, Difference
from geocfm.events import Progressed, Reporter
from geocfm.job import EvaluateJob, TrainJob, make_job
from geocfm.model.checkpoint import load_card
from geocfm.run import run_job
from geocfm.run.baselines import _verdict, iterations_done, settings_to_learn_by
from small_data import TINY_SETTINGS, SmallRegion, json_lines, run_geocfm, write_shapes

CHOSEN = "uniform,rf,gbdt,ipp,ocsvm,retrieval-kde,unet-seg,unet-density"


def evaluate_options(region: SmallRegion, model: Path, out: Path, names: str) -> list[object]:
    quick = ("--solver", "euler", "--steps", 2, "--occurrences", region.occurrences)
    given = ("--checkpoint", model, *region.raster_options, *quick)
    return ["evaluate", *given, "--baselines", names, "--out", out]


@pytest.fixture(scope="module")
def compared(
    small_region: SmallRegion, trained: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[dict[str, Any]]]:
    out = tmp_path_factory.mktemp("compared") / "figures"
    done = run_geocfm(*evaluate_options(small_region, trained.checkpoint, out, CHOSEN), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return out, json_lines(done.stdout)


def test_each_baseline_is_measured_on_the_same_tiles(
    compared: tuple[Path, list[dict[str, Any]]],
) -> None:
    out, events = compared
    figures = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))
    assert list(figures["baselines"]) == CHOSEN.split(",")
    for found in figures["baselines"].values():
        assert {"title", "test", "validation", "train", "seconds", "settings"} <= found.keys()
        for role in ("test", "validation", "train"):
            assert found[role]["occurrences"] == figures[role]["occurrences"]
            assert found[role]["area_km2"] == pytest.approx(figures[role]["area_km2"])
        gap = found["geocfm_less_this_at_0.1"]
        own, other = (e["test"]["captured"]["0.1"] for e in (figures, found))
        assert gap["difference"] == pytest.approx(own - other, abs=1e-9)
        assert gap["low"] <= gap["difference"] <= gap["high"]
        assert gap["confidence"] == pytest.approx(1 - 0.05 / 8)  # of eight comparisons
        assert found["held_out_captured_at_0.1"]["share"] == pytest.approx(other, abs=1e-9)
    assert figures["held_out_captured_at_0.1"]["share"] == pytest.approx(own, abs=1e-9)
    baselines = figures["baselines"]
    assert baselines["uniform"]["test"]["captured"]["0.1"] == pytest.approx(0.1, abs=1e-6)
    assert baselines["rf"]["train"]["area_under_curve"] > 0.9  # the ridge tells where points lie
    assert baselines["gbdt"]["train"]["area_under_curve"] > 0.9
    assert baselines["ipp"]["test"]["area_under_curve"] > 0.8
    assert baselines["ocsvm"]["test"]["area_under_curve"] > 0.6
    assert baselines["unet-seg"]["settings"]["iterations"] == 120
    assert baselines["unet-density"]["settings"]["iterations"] == 120
    assert baselines["unet-density"]["train"]["area_under_curve"] > 0.6
    own = figures["within_windows"]
    for role in ("test", "train"):
        assert baselines["uniform"]["within_windows"][role]["nll"] == pytest.approx(
            own[role]["even"], abs=1e-6
        )
        for found in baselines.values():
            assert found["within_windows"][role]["occurrences"] == own[role]["occurrences"] > 0
        head = figures["head_within_windows"][role]
        # the head anchors the flow, whose own part learns a little more in so few steps
        assert head["nll"] == pytest.approx(own[role]["nll"], abs=0.25)
        assert head["nll"] < own[role]["even"] - 1
        assert head["nll"] != own[role]["nll"]
    assert own["train"]["nll"] < own["train"]["even"] - 0.1  # it knows more than nothing
    assert baselines["ipp"]["within_windows"]["test"]["nll"] < own["test"]["even"] - 0.1
    reported = [e["content"] for e in events if e["event"] == "report"]
    assert reported[-1]["baselines"].keys() == baselines.keys()
    assert sorted(path.name for path in out.iterdir()) == [
        *("capture.png", "evaluation.json", "importance.png", "map.png", "occurrences.gpkg"),
        *("report.html", "report.json"),
    ]


def test_the_report_has_the_baselines_beside_the_model(
    compared: tuple[Path, list[dict[str, Any]]],
) -> None:
    out, events = compared
    figures = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))
    told = json.loads((out / "report.json").read_text(encoding="utf-8"))["extras"]["baselines"]
    for row, found in zip(told["rows"], figures["baselines"].values(), strict=True):
        assert row["title"] == found["title"]
        assert row["captured"][2] == pytest.approx(found["test"]["captured"]["0.1"])
        assert row["under_curve"] == pytest.approx(found["test"]["area_under_curve"])
        gap = found["geocfm_less_this_at_0.1"]
        assert row["lead"] == {"value": gap["difference"], "low": gap["low"], "high": gap["high"]}
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Other methods on the same tiles" in page
    (verdict,) = [e["text"] for e in events if "its keep" in e.get("text", "")]
    assert told["sentences"][-1] == verdict


def test_it_is_said_whether_the_model_earned_its_keep(
    compared: tuple[Path, list[dict[str, Any]]],
) -> None:
    out, events = compared
    notes = [e["text"] for e in events if e["event"] == "note"]
    figures = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))
    count = figures["test"]["occurrences"]
    share = figures["baselines"]["rf"]["test"]["captured"]["0.1"]
    said = f"Random Forest: {100 * share:.0f} % of the {count} held-out occurrences in 10 %"
    assert any(note.startswith(said) for note in notes)
    assert any(note.startswith("Within held-out windows, nats per occurrence") for note in notes)
    (verdict,) = [note for note in notes if "earned its keep" in note or "earn its keep" in note]
    gaps = {
        found["title"]: found["geocfm_less_this_at_0.1"] for found in figures["baselines"].values()
    }
    title, worst = min(gaps.items(), key=lambda item: item[1]["difference"])
    assert title in verdict
    undecided = worst["low"] <= 0 <= worst["high"]
    assert ("cannot be told" in verdict) == undecided
    too_few = undecided and worst["tiles"] < FEW_TILES
    assert ("for all 8 comparisons together" in verdict) == (not too_few)
    if too_few:
        assert "are too few to tell that from chance." in verdict
    for network in ("UNet-Seg", "UNet density"):
        said = f"{network} learns with the model's own settings, for 120 iterations."
        assert said in notes
        assert any(note.startswith(f"{network} did 120 iterations") for note in notes)


def test_a_verdict_shows_no_interval_that_only_says_how_few_tiles_there_are() -> None:
    few = Difference(-0.09, -1.0, 1.0, 53, 2)
    said = _verdict("Poisson-LR", few, 10)
    assert "cannot be told: Poisson-LR is 9 points ahead of GeoCFM, but the 53" in said
    assert said.endswith("on 2 tiles are too few to tell that from chance.")
    many = _verdict("Poisson-LR", Difference(-0.09, -0.3, 0.1, 53, 8), 10)
    assert "for all 10 comparisons together: -30 to +10 points" in many
    decided = _verdict("Poisson-LR", Difference(-0.3, -0.5, -0.1, 53, 3), 10)
    assert "-50 to -10 points" in decided


def test_networks_get_the_iterations_that_the_model_did(trained: Any, tmp_path: Path) -> None:
    card = load_card(trained.checkpoint)
    clock = card.settings.training.model_copy(update={"iterations": None, "minutes": 3.0})
    timed = card.model_copy(
        update={"settings": card.settings.model_copy(update={"training": clock})}
    )
    log = trained.checkpoint.with_name("model.log.jsonl")
    assert iterations_done(card, log) == 120
    learning = settings_to_learn_by(timed, 120).training
    assert (learning.iterations, learning.minutes) == (120, None)
    assert iterations_done(timed, tmp_path / "copied.log.jsonl") is None
    assert settings_to_learn_by(timed, None).training == clock
    other = card.model_copy(update={"provenance": {"job": {}}})
    assert iterations_done(other, log) is None


class StopAt:
    """Asks to stop when a stage begins; notes the stages."""

    def __init__(self, stage: str | None) -> None:
        self.asked, self.stages, self._stage = threading.Event(), [], stage

    def emit(self, event: object) -> None:
        if isinstance(event, Progressed):
            self.stages.append(event.stage)
            if event.stage == self._stage:
                self.asked.set()

    def close(self) -> None: ...


def test_finished_baselines_are_not_redone(
    compared: tuple[Path, list[dict[str, Any]]],
    small_region: SmallRegion,
    trained: Any,
    tmp_path: Path,
    one_thread: None,
) -> None:
    out = tmp_path / "figures"
    values = {
        "checkpoint": trained.checkpoint,
        "raster": small_region.rasters,
        "occurrences": small_region.occurrences,
        "solver": "euler",
        "steps": 2,
        "baselines": "poisson-lr, IPP",
        "out": out,
    }

    def run(stop: str | None) -> list[str]:
        sink = StopAt(stop)
        run_job(make_job(EvaluateJob, values), Reporter(sink, sink.asked))
        return sink.stages

    with pytest.raises(Cancelled):
        run("Mapping Poisson process")
    assert not (out / "evaluation.json").exists()
    stages = run(None)
    assert "Mapping Poisson process" in stages
    assert "Mapping" not in stages
    assert "Mapping Poisson-LR" not in stages
    again, whole = (
        json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))["baselines"]
        for folder in (out, compared[0])
    )
    assert list(again) == ["poisson-lr", "ipp"]
    for role in ("test", "validation", "train"):
        assert again["ipp"][role] == whole["ipp"][role]


def test_a_training_goes_on_with_the_methods_of_its_report(
    small_region: SmallRegion, tmp_path: Path, one_thread: None
) -> None:
    values = {
        "raster": small_region.rasters,
        "occurrences": small_region.occurrences,
        "window": 32,
        "tile": 40,
        "device": "cpu",
        "settings": list(TINY_SETTINGS),
        "iterations": 4,
        "out": tmp_path / "m.safetensors",
    }

    def run(stop: str | None) -> list[str]:
        sink = StopAt(stop)
        run_job(make_job(TrainJob, values), Reporter(sink, sink.asked))
        return sink.stages

    with pytest.raises(Cancelled):
        run("Mapping Poisson process")
    stages = run(None)
    assert "Mapping Poisson process" in stages
    assert not {"Mapping", "Mapping Random Forest", "Likelihood of GeoCFM"} & set(stages)
    report = json.loads((tmp_path / "m.report.json").read_text(encoding="utf-8"))
    rows = report["extras"]["baselines"]["rows"]
    assert [row["title"] for row in rows] == ["Random Forest", "Poisson process"]


def test_a_wrong_name_is_answered_with_the_known_ones(
    refused: Callable[..., str], small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    for names, words in (
        ("rf,gbtd", ("'gbtd'", "Did you mean 'gbdt'?", "unet-density", "--baselines")),
        ("forest", ("there is no baseline 'forest'", "uniform, global-kde, poisson-lr")),
        (" , ", ("it names none",)),
        ("none,rf", ("'none' stands alone",)),
        ("rf, auto", ("'auto' stands alone",)),
    ):
        out = tmp_path / "figures"
        refused(evaluate_options(small_region, trained.checkpoint, out, names), *words)


def test_without_training_occurrences_it_is_said_first(
    geocfm: Callable[..., Any], small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    figures = json.loads(geocfm("info", trained.checkpoint, "--json").output.splitlines()[-2])[
        "content"
    ]["split"]
    row, col = next(
        (row, col)
        for row, roles in enumerate(figures["roles"])
        for col, role in enumerate(roles)
        if role == "test"
    )
    place = (figures["col_edges"][col] + 0.5, figures["row_edges"][row] + 0.5)
    world = shapely.points(small_region.grid.to_world([place]))
    points = write_shapes(tmp_path / "few.gpkg", world, small_region.grid.crs)
    options = evaluate_options(small_region, trained.checkpoint, tmp_path / "out", "all")
    options[options.index(small_region.occurrences)] = points
    result = geocfm(*options)
    assert result.exit_code == 2, result.output
    assert "baselines have nothing to learn" in " ".join(result.output.split())
