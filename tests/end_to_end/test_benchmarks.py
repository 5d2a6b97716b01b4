"""A tiny version of every benchmark command: 32 x 32 images and seconds of training."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from child_process import ended, read_until, started

TINY = ("--size", 32, "--draws", 2, "--training-images", 2)
SYNTHETIC = ("synthetic", *TINY, "--images", 2, "--minutes", 0.01)
ABLATION = (*TINY, "--images", 1, "--minutes", 0.005)
TRAINED = {"unet-seg", "unet-density", "geocfm"}


@pytest.fixture(scope="module")
def benchmark(one_thread: None) -> Iterator[Callable[..., str]]:
    """``geocfm benchmark ...`` in this process; gives what was said."""
    from geocfm.cli import app
    from typer.testing import CliRunner

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(*arguments: object, code: int = 0) -> str:
        result = CliRunner().invoke(app, ["benchmark", *map(str, arguments)])
        said = " ".join((result.output + (result.stderr or "")).split())
        assert result.exit_code == code, said
        return said

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def done(benchmark: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a benchmark of all methods."""
    folder = tmp_path_factory.mktemp("benchmark") / "all"
    said = benchmark(*SYNTHETIC, "--out", folder)
    assert "Retrieval-KDE" in said
    assert "(49.61)" not in said  # which is of larger images
    assert "of images of 220 px" in said
    return folder


@pytest.fixture(scope="module")
def ablations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where no benchmark was run before."""
    return tmp_path_factory.mktemp("ablations")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figures, and few steps to a density: they take longer than all else."""
    monkeypatch.setattr("geocfm.evaluation.benchmark.synthetic.draw_figures", lambda *_: ())
    for name in ("MAP_STEPS", "EXACT_STEPS"):
        monkeypatch.setattr(f"geocfm.evaluation.benchmark.flow_method.{name}", 4)


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def test_every_method_is_scored_on_every_image(done: Path) -> None:
    content = read(done / "synthetic.json")
    from geocfm.evaluation.benchmark.methods import METHODS

    assert list(content["methods"]) == list(METHODS)
    for key, method in content["methods"].items():
        assert method["image_seeds"] == [900000, 900001]
        assert method["points"] == [500, 500]
        for metric in ("cd", "sinkhorn", "f5", "kde_nll", "top5", "nll", "capture"):
            assert len(method["values"][metric]) == 2, (key, metric)
            assert None not in method["values"][metric], (key, metric)
        assert len(method["train_cd"]) == (0 if key in ("latent", "bayes") else 2)
        assert read(done / "methods" / f"{key}.json") == method
    assert {"settings", "seed", "versions", "machine", "paper"} <= content.keys()
    assert content["methods"]["uniform"]["values"]["nll"] == pytest.approx([6.931472] * 2)
    flow = content["methods"]["geocfm"]
    assert {"top5_kde", "mass", "integral"} <= flow["values"].keys()
    assert flow["method"]["iterations"] >= 1
    assert flow["method"]["weights_sha256"] == sha256_of_weights(done)


def test_what_was_chosen_is_told(done: Path) -> None:
    content = read(done / "synthetic.json")
    assert {"scipy", "scikit-learn", "torch", "numpy"} <= content["versions"].keys()
    metrics = content["metrics"]
    assert metrics["f5_tolerance_px"] == 5
    assert metrics["sinkhorn"]["epsilon"] == pytest.approx(0.0025)
    assert metrics["kde"]["least_variance_px2"] == 1
    methods = {key: result["method"] for key, result in content["methods"].items()}
    caps = {"per_positive": 3, "least_of_an_image": 50, "most_in_all": 400_000}
    assert methods["poisson-lr"]["pseudo_negatives"] == caps
    assert methods["gbdt-paper"]["pseudo_negatives"] == {**caps, "least_of_an_image": 100}
    assert methods["ipp"]["most_features"] == 400
    assert methods["ipp"]["tolerance"] == 1e-6
    assert methods["uniform"]["least_score_of_mean"] == 1e-6
    assert "least score" in methods["ocsvm"]["shift"]


def test_tables_figures_and_weights_are_written(done: Path) -> None:
    table = (done / "table.md").read_text(encoding="utf-8")
    assert table.count("\n| ") >= 13 + 6 + 1
    assert "(9.37" not in table  # which is of larger images
    for name in ("draws.png", "densities.png", "all-methods.png", "capture.png"):
        picture = (done / "figures" / name).read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert b'"preset": "quick"' in picture
    weights = {path.stem for path in (done / "weights").glob("*.safetensors")}
    assert weights == TRAINED
    assert not list((done / "training").rglob("*.safetensors"))
    assert not (done / ".work").exists()


def test_every_file_is_known_by_its_name(done: Path) -> None:
    from geocfm.evaluation.benchmark.folder import OUR_FILES, OURS

    files = [path.relative_to(done).as_posix() for path in done.rglob("*") if path.is_file()]
    assert "figures/draws.png" in files
    assert "training/geocfm/log.jsonl" in files
    assert [name for name in files if not OURS.fullmatch(name) and name not in OUR_FILES] == []


def test_a_rerun_takes_what_is_there_and_redoes_what_is_missing(
    benchmark: Callable[..., str], done: Path
) -> None:
    kept = done / "methods" / "geocfm.json"
    before = kept.stat().st_mtime_ns
    uniform = done / "methods" / "uniform.json"
    values = read(uniform)["values"]
    uniform.unlink()
    said = benchmark(*SYNTHETIC, "--methods", "uniform,geocfm,latent", "--out", done)
    assert "3 of the methods are there already" in said  # the oracles are in every table
    assert "Training" not in said.replace("Training images", "")
    assert read(uniform)["values"] == values
    assert kept.stat().st_mtime_ns == before
    assert set(read(done / "synthetic.json")["methods"]) >= TRAINED  # all that is in the folder


def test_weights_outlive_the_scores(benchmark: Callable[..., str], done: Path) -> None:
    path = done / "methods" / "unet-seg.json"
    before = read(path)
    path.unlink()
    said = benchmark(*SYNTHETIC, "--methods", "unet-seg", "--out", done)
    assert "Training UNet-Seg" not in said
    after = read(path)
    assert after["values"] == before["values"]
    assert after["fit_seconds"] == before["fit_seconds"]


def test_other_settings_are_refused_unless_overwritten(
    benchmark: Callable[..., str], tmp_path: Path
) -> None:
    options = ("--methods", "uniform", "--out", tmp_path)
    benchmark(*SYNTHETIC, *options)
    elsewhere = tmp_path.with_name("elsewhere")
    elsewhere.mkdir()
    (tmp_path / "weights").symlink_to(elsewhere, target_is_directory=True)
    (tmp_path / "training" / "geocfm").mkdir(parents=True)
    mine = [
        tmp_path / "mine.txt",
        tmp_path / "figures" / "field trip.png",
        tmp_path / "methods" / "notes.json",
        tmp_path / "training" / "geocfm" / "best-of.safetensors",
        elsewhere / "geocfm.safetensors",
    ]
    ours = [
        tmp_path / "training" / "geocfm" / "best-7.safetensors",
        tmp_path / "methods" / "rf.json",
        tmp_path / "ablation" / "gap.md",
        tmp_path / "ablation" / "steps" / "euler-1.json",
    ]
    (tmp_path / "ablation" / "steps").mkdir(parents=True)
    for path in (*mine, *ours):
        path.write_text("mine")
    other = (*SYNTHETIC[:-1], 5, *options)
    said = benchmark(*other, code=2)
    assert "minutes was 0.01 and is 5.0" in said
    assert "--overwrite" in said
    benchmark(*other, "--overwrite")
    assert read(tmp_path / "synthetic.json")["settings"]["minutes"] == 5
    assert [path for path in mine if not path.exists()] == []
    assert [path for path in ours if path.exists()] == []
    assert not (tmp_path / "ablation").exists()
    assert "no method called 'forest'" in benchmark(
        "synthetic", "--methods", "forest", "--out", tmp_path, code=2
    )


def test_the_gap_is_told_from_the_benchmark_in_the_folder(
    benchmark: Callable[..., str], done: Path
) -> None:
    said = benchmark("ablation", "gap", "--out", done)
    assert "Training GeoCFM" not in said
    assert "(8.81)" not in said
    values = read(done / "ablation" / "gap.json")["values"]
    assert values["geocfm"]["test_cd"] == read(done / "methods" / "geocfm.json")["values"]["cd"]
    for more in ((), ("--overwrite",)):
        said = benchmark("ablation", "gap", "--images", 1, "--out", done, *more, code=2)
        assert "images was 2 and is 1" in said
        assert "choose another folder" in said


def test_overwriting_an_ablation_redoes_it_alone(benchmark: Callable[..., str], done: Path) -> None:
    outdated = [done / "ablation" / name for name in ("gap.json", "gap.md", "gap/old.json")]
    others = [done / "ablation" / "steps.md", done / "ablation" / "gap" / "notes.txt"]
    (done / "ablation" / "gap").mkdir(parents=True, exist_ok=True)
    for path in (*outdated, *others):
        path.write_text("there before")
    kept = [*others, *(p for p in done.rglob("*") if p.parent.name in ("methods", "weights"))]
    before = {path: path.stat().st_mtime_ns for path in kept}
    said = benchmark("ablation", "gap", "--overwrite", "--out", done)
    assert "Training GeoCFM" not in said
    assert {path: path.stat().st_mtime_ns for path in kept} == before
    assert [path.read_text() == "there before" for path in outdated[:2]] == [False, False]
    assert not outdated[2].exists()


def test_steps_are_timed_against_a_pass_of_the_segmentation(
    benchmark: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("geocfm.evaluation.benchmark.step_times.REPETITIONS", 1)
    said = benchmark("ablation", "steps", *ABLATION, "--draws", 1, "--out", tmp_path)
    assert "(2.76)" not in said
    content = read(tmp_path / "ablation" / "steps.json")
    assert content["choices"] == {"draws": 1, "timed_points": 500, "timings": 1}
    assert {"times", "euler-1", "heun-50", "latent", "bayes"} <= content["made"].keys()
    values = content["values"]
    assert len(values["scores"]) == 24
    assert len(values["milliseconds"]) == 26
    assert values["milliseconds"]["unet-seg-full"] > 0
    assert values["milliseconds"]["euler-50"] > values["milliseconds"]["euler-1"] > 0
    assert "| K = 50 |" in (tmp_path / "ablation" / "steps.md").read_text(encoding="utf-8")


def test_recipes_are_trained_from_the_papers_and_from_ours(
    benchmark: Callable[..., str], tmp_path: Path, hasty: None
) -> None:
    folder = tmp_path / "recipes"
    command = ("ablation", "recipe", *ABLATION, "--out", folder, "--recipes")
    said = benchmark(*command, "paper,anchor,ours")
    assert "density head that anchors the flow" in said
    content = read(folder / "ablation" / "recipe.json")
    assert list(content["values"]) == ["paper", "anchor", "ours"]
    kept = {}
    for key in content["values"]:
        result = folder / "ablation" / "recipe" / key / "methods" / "geocfm.json"
        kept[key] = read(result)
        assert kept[key]["image_seeds"] == [800000]  # of the validation
        assert kept[key]["method"]["iterations"] >= 1
    network = {key: result["settings"]["settings"]["network"] for key, result in kept.items()}
    assert [network[key]["coordinates"] for key in kept] == ["unit", "centred", "centred"]
    assert [network[key]["anchor"] for key in kept] == [0, 1, 1]
    assert [network[key]["stem"] for key in kept] == [1, 1, 4]
    # another is added, and those that are there are taken
    benchmark(*command, "no-average")
    assert list(read(folder / "ablation" / "recipe.json")["values"]) == [*kept, "no-average"]
    paper = folder / "ablation" / "recipe" / "paper"
    assert read(paper / "methods" / "geocfm.json") == kept["paper"]
    said = benchmark(*command, "papre", code=2)
    assert "Did you mean 'paper'?" in said
    # begun anew are those that are named, and nobody's files go with them
    (paper / "mine.txt").write_text("mine", encoding="utf-8")
    before = {path: path.stat().st_mtime_ns for path in paper.parent.rglob("weights/*")}
    benchmark(*command, "paper,ours", "--overwrite")
    after = {path: path.stat().st_mtime_ns for path in paper.parent.rglob("weights/*")}
    redone = {path.parents[1].name for path in before if after[path] != before[path]}
    assert redone == {"paper", "ours"}
    assert (paper / "mine.txt").read_text(encoding="utf-8") == "mine"


def test_a_larger_budget_is_more_stable(benchmark: Callable[..., str], ablations: Path) -> None:
    benchmark("ablation", "budget", *ABLATION, "--out", ablations)
    found = read(ablations / "ablation" / "budget.json")["values"]
    assert list(found) == ["geocfm", "latent", "bayes"]
    values = found["geocfm"]
    assert list(values) == ["100", "250", "500", "1000", "2000"]
    (few,), (many,) = values["100"]["stability"], values["2000"]["stability"]
    assert 0 < few < many <= 1


def test_positives_are_retrained_and_each_training_is_kept(
    benchmark: Callable[..., str], ablations: Path
) -> None:
    said = benchmark("ablation", "positives", *ABLATION, "--out", ablations)
    assert "(9.62" not in said
    content = read(ablations / "ablation" / "positives.json")
    found = content["values"]
    assert list(found) == [f"{share}-seed-{seed}" for share in (100, 75, 50) for seed in (1, 2, 3)]
    trainings = {name: content["made"][name]["training"] for name in found}
    for training in trainings.values():
        assert training["seconds"] > 0
        assert training["iterations"] >= training["best_iteration"] >= 1
    half = [trainings[f"50-seed-{seed}"]["iterations"] for seed in (1, 2, 3)]
    told = f"{min(half)}" if len(set(half)) == 1 else f"{min(half)} to {max(half)}"
    (note,) = [note for note in content["table"]["notes"] if "As the clock ends" in note]
    assert note.endswith(f", {told} with 50 % of the positives.")
    assert content["made"]["latent"]["versions"] == content["versions"]
    weights = {path.stem for path in (ablations / "weights").glob("*.safetensors")}
    assert len(weights) == 9
    assert {"geocfm", "geocfm-100-seed-2", "geocfm-50-seed-1"} <= weights
    (ablations / "ablation" / "positives" / "50-seed-3.json").unlink()
    again = benchmark("ablation", "positives", "--out", ablations)
    assert "Training" not in again
    assert read(ablations / "ablation" / "positives.json")["values"] == found


def test_a_part_keeps_the_versions_it_was_measured_with(
    benchmark: Callable[..., str], ablations: Path
) -> None:
    benchmark("ablation", "budget", *ABLATION, "--out", ablations)
    path = ablations / "ablation" / "budget" / "geocfm.json"
    part = read(path)
    assert part["made"]["seconds"] > 0
    part["made"]["versions"]["geocfm"] = "0.0.1"
    path.write_text(json.dumps(part))
    benchmark("ablation", "budget", "--out", ablations)
    content = read(ablations / "ablation" / "budget.json")
    assert content["made"]["geocfm"] == part["made"]
    assert content["made"]["geocfm"]["versions"] != content["versions"]
    assert content["made"]["bayes"]["versions"] == content["versions"]


def test_values_of_other_weights_are_never_taken(
    benchmark: Callable[..., str], tmp_path: Path, hasty: None
) -> None:
    options = (*ABLATION, "--out", tmp_path)
    benchmark("synthetic", *options, "--methods", "geocfm")
    benchmark("ablation", "budget", "--out", tmp_path)
    first = read(tmp_path / "ablation" / "budget.json")
    oracle = tmp_path / "ablation" / "budget" / "bayes.json"
    before = oracle.stat().st_mtime_ns
    change_weights(tmp_path)  # as a training would that the clock ended elsewhere
    benchmark("ablation", "budget", "--out", tmp_path)
    again = read(tmp_path / "ablation" / "budget.json")
    assert again["values"]["geocfm"] != first["values"]["geocfm"]
    assert again["values"]["bayes"] == first["values"]["bayes"]
    assert oracle.stat().st_mtime_ns == before  # it knows no weights
    assert again["made"]["geocfm"]["training"]["weights_sha256"] == sha256_of_weights(tmp_path)

    said = benchmark("synthetic", *options, "--methods", "uniform")
    assert "GeoCFM is left out" in said
    assert "--methods geocfm" in said
    assert "geocfm" not in read(tmp_path / "synthetic.json")["methods"]
    result = tmp_path / "methods" / "geocfm.json"
    old = read(result)
    said = benchmark("synthetic", *options, "--methods", "geocfm")
    assert "Training GeoCFM" not in said
    assert read(result)["values"]["cd"] != old["values"]["cd"]
    assert read(result)["method"]["weights_sha256"] == sha256_of_weights(tmp_path)
    assert "geocfm" in read(tmp_path / "synthetic.json")["methods"]


def test_the_papers_preset_runs(benchmark: Callable[..., str], tmp_path: Path, hasty: None) -> None:
    paper = ("--preset", "paper-synthetic", "--methods", "geocfm")
    benchmark("synthetic", *ABLATION, *paper, "--out", tmp_path)
    result = read(tmp_path / "methods" / "geocfm.json")
    assert result["method"]["iterations"] >= 1
    sampling = result["method"]["sampling"]
    assert (sampling["solver"], sampling["steps"], sampling["outside"]) == ("euler", 50, "clip")
    for metric in ("cd", "sinkhorn", "f5", "kde_nll", "top5", "nll", "capture"):
        assert isinstance(result["values"][metric][0], float), metric
    assert "paper-synthetic" in (tmp_path / "table.md").read_text(encoding="utf-8")


@pytest.mark.skipif(os.name == "nt", reason="sends Ctrl-C as POSIX does")
def test_a_benchmark_interrupted_in_training_goes_on(
    benchmark: Callable[..., str], tmp_path: Path, hasty: None
) -> None:
    options = ("synthetic", *TINY, "--images", 1, "--minutes", 0.05, "--methods", "geocfm")
    command = (*options, "--out", tmp_path)
    with started("benchmark", *command) as child:
        read_until(child, "Training GeoCFM", 0.5)
        child.send_signal(signal.SIGINT)
        events, error = ended(child, within=15)
    assert (child.returncode, error) == (130, "")
    assert events[-1]["event"] == "cancelled"
    result, oracle = (tmp_path / "methods" / f"{key}.json" for key in ("geocfm", "bayes"))
    assert not result.exists()
    assert not (tmp_path / "synthetic.json").exists()
    before = oracle.stat().st_mtime_ns
    training = tmp_path / "training" / "geocfm"
    assert (training / "state.safetensors").exists()
    log = (training / "log.jsonl").read_text(encoding="utf-8")

    benchmark(*command)
    assert oracle.stat().st_mtime_ns == before
    after = (training / "log.jsonl").read_text(encoding="utf-8")
    assert after.startswith(log)
    rows = [json.loads(line) for line in after.splitlines() if '"iteration"' in line]
    assert rows[-1]["iteration"] == read(result)["method"]["iterations"]
    assert 3 <= read(result)["fit_seconds"] < 6  # of both runs together
    assert not (training / "state.safetensors").exists()


def test_overwriting_one_method_keeps_the_others(
    benchmark: Callable[..., str], tmp_path: Path
) -> None:
    options = ("synthetic", *ABLATION, "--out", tmp_path)
    benchmark(*options, "--methods", "uniform,poisson-lr")
    kept, again = (tmp_path / "methods" / f"{key}.json" for key in ("uniform", "poisson-lr"))
    before = kept.stat().st_mtime_ns, again.stat().st_mtime_ns
    benchmark(*options, "--methods", "poisson-lr", "--overwrite")
    assert kept.stat().st_mtime_ns == before[0]
    assert again.stat().st_mtime_ns > before[1]
    assert {"uniform", "poisson-lr"} <= read(tmp_path / "synthetic.json")["methods"].keys()


def test_settings_of_another_program_are_not_a_benchmarks(
    benchmark: Callable[..., str], tmp_path: Path
) -> None:
    own = tmp_path / "benchmark.json"
    own.write_text('{"name": "mine"}')
    said = benchmark("synthetic", *ABLATION, "--overwrite", "--out", tmp_path, code=2)
    assert "not from a benchmark" in said
    assert own.read_text() == '{"name": "mine"}'


def test_files_that_no_benchmark_wrote_are_never_touched(
    benchmark: Callable[..., str], tmp_path: Path
) -> None:
    own = tmp_path / "figures" / "field trip.png"
    own.parent.mkdir()
    own.write_text("mine")
    one = ("synthetic", *TINY, "--images", 1, "--methods", "uniform", "--out", tmp_path)
    for more in ((), ("--overwrite",)):
        assert "not from a benchmark" in benchmark(*one, *more, code=2)
    assert [path.name for path in tmp_path.iterdir()] == ["figures"]
    assert own.read_text() == "mine"


def test_results_of_other_settings_are_never_taken(
    benchmark: Callable[..., str], tmp_path: Path
) -> None:
    one = (*SYNTHETIC[:-1], 0.002, "--methods", "unet-density", "--out", tmp_path)
    benchmark(*one)
    result, facts = (tmp_path / name / "unet-density.json" for name in ("methods", "weights"))
    for path in (result, facts):
        content = read(path)
        content["settings"]["generator"]["gamma"] = 0.5
        path.write_text(json.dumps(content))
    assert "Training UNet density" in benchmark(*one)
    assert read(result)["settings"] == read(facts)["settings"] == read(tmp_path / "benchmark.json")


def test_damaged_weights_are_made_again(benchmark: Callable[..., str], tmp_path: Path) -> None:
    one = ("synthetic", *ABLATION, "--methods", "unet-seg", "--out", tmp_path)
    benchmark(*one)
    weights = tmp_path / "weights" / "unet-seg.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    (tmp_path / "methods" / "unet-seg.json").unlink()
    said = benchmark(*one)
    assert "is damaged; the network is trained again" in said
    assert "unet-seg" in read(tmp_path / "synthetic.json")["methods"]


def test_parts_are_kept_with_their_settings(tmp_path: Path) -> None:
    bench = a_bench(tmp_path, seed=1)
    path = tmp_path / "ablation" / "steps" / "euler-1.json"
    assert bench.part(path, lambda: {"cd": [1.0]}).values == {"cd": [1.0]}
    assert bench.part(path, lambda: {"cd": [2.0]}).values == {"cd": [1.0]}
    assert a_bench(tmp_path, seed=2).part(path, lambda: {"cd": [2.0]}).values == {"cd": [2.0]}
    for damaged in ("[]", "{", '{"cd": [3.0]}'):
        path.write_text(damaged)
        assert bench.part(path, lambda: {"cd": [4.0]}).values == {"cd": [4.0]}


def test_few_test_images_are_held_at_a_time(tmp_path: Path) -> None:
    import gc

    from geocfm.data.synthetic import SyntheticImage

    bench = a_bench(tmp_path)
    images = bench.test_images
    assert len(images) == 6
    assert [len(image.points) for image in images] == [500] * 6
    assert sum(type(thing) is SyntheticImage for thing in gc.get_objects()) <= 2
    assert (images[3].points == list(images)[3].points).all()
    assert (images[2:][1].points == images[3].points).all()
    assert (images[-1].points != images[0].points).any()


def test_images_too_large_to_train_with_are_refused_before_anything_is_touched(
    benchmark: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("geocfm.run.needs.available_bytes", lambda device=None: 10**9)
    large = ("--size", 2048, "--images", 1)
    for command in (("synthetic",), ("ablation", "positives")):
        said = benchmark(*command, *large, "--out", tmp_path / "new", code=2)
        assert "Training with images of 2048 px would need about" in said
        assert "images of 512 px" in said  # 10 GB by 4 x 4
    assert not (tmp_path / "new").exists()
    folder = tmp_path / "there"
    small = ("synthetic", *TINY, "--images", 1, "--methods", "uniform", "--out", folder)
    benchmark(*small)
    before = sorted(folder.rglob("*"))
    benchmark("synthetic", *large, "--out", folder, "--overwrite", code=2)
    assert sorted(folder.rglob("*")) == before


def test_a_full_disk_is_said_in_a_sentence(
    benchmark: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("numpy.savez_compressed", full)
    one = ("synthetic", *TINY, "--images", 1, "--methods", "uniform", "--out", tmp_path)
    assert "no room left on the disk" in benchmark(*one, code=2)


def test_a_folder_that_vanishes_is_said_in_a_sentence(
    benchmark: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from geocfm.evaluation.benchmark import synthetic

    folder, score = tmp_path / "drive", synthetic.score_method

    def unplugged(*arguments: Any, **more: Any) -> Any:
        shutil.rmtree(folder)
        return score(*arguments, **more)

    monkeypatch.setattr(synthetic, "score_method", unplugged)
    two = ("synthetic", *TINY, "--images", 1, "--methods", "uniform,latent", "--out", folder)
    assert "vanished while" in benchmark(*two, code=2)


def sha256_of_weights(folder: Path) -> str:
    return hashlib.sha256((folder / "weights" / "geocfm.safetensors").read_bytes()).hexdigest()


def change_weights(folder: Path) -> None:
    """Other weights for GeoCFM in a benchmark's folder."""
    import safetensors.torch

    path = folder / "weights" / "geocfm.safetensors"
    other = {name: weight + 0.05 for name, weight in safetensors.torch.load_file(path).items()}
    safetensors.torch.save_file(other, path)


def a_bench(folder: Path, seed: int = 1) -> Any:
    """A benchmark at work in a folder."""
    import torch
    from geocfm.evaluation.benchmark.bench import Bench
    from geocfm.evaluation.benchmark.protocol import SETTINGS_FILE, benchmark_settings
    from geocfm.events import JsonSink, Reporter

    (folder / SETTINGS_FILE).touch()
    settings = benchmark_settings("quick", 1.0, 32, 6, 2, 2, seed, "cpu")
    return Bench(folder, settings, torch.device("cpu"), Reporter(JsonSink(io.StringIO())))
