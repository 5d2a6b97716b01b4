from __future__ import annotations

import io
import math

import pytest
from geocfm.evaluation.benchmark import paper
from geocfm.evaluation.benchmark.methods import GROUPS, METHODS, title_of
from geocfm.evaluation.benchmark.protocol import BenchmarkSettings, benchmark_settings
from geocfm.evaluation.benchmark.result_files import MethodResult, Value
from geocfm.evaluation.benchmark.synthetic import main_table
from geocfm.evaluation.benchmark.tables import (
    Cell,
    Estimate,
    Group,
    Row,
    Table,
    best_of,
    over_images,
    over_seeds,
    without_value,
)
from geocfm.terminal_table import ResultsTable
from rich.console import Console


def settings(**changes: object) -> BenchmarkSettings:
    chosen = {
        "preset": "quick",
        "minutes": 2.0,
        "size": 220,
        "images": 4,
        "draws": 2,
        "training_images": 8,
        "seed": 1,
        "device": "cpu",
    }
    return benchmark_settings(**{**chosen, **changes})


def result(key: str, **values: list[Value]) -> MethodResult:
    every: dict[str, list[Value]] = {m.key: [1.0, 2.0, 3.0, 6.0] for m in paper.METRICS}
    only = {"geocfm": ("top5_kde", "mass", "integral"), "bayes": ("nll_monte_carlo_error",)}
    every |= {name: [0.5] * 4 for name in only.get(key, ())}
    return MethodResult(
        key=key,
        title=title_of(key),
        settings=settings(),
        versions={},
        machine={},
        method={},
        fit_seconds=3.0,
        score_seconds=1.0,
        image_seeds=[1, 2, 3, 4],
        points=[500] * 4,
        values={**every, **values},
        train_cd=[],
    )


def test_a_mean_has_the_standard_error_over_images() -> None:
    found = over_images([1.0, 2.0, 3.0, 6.0])
    assert found.mean == 3.0
    assert found.error == pytest.approx(math.sqrt(14 / 3) / 2)  # SD by n - 1, over root of 4
    assert found.text(2) == "3.00 ± 1.08"


def test_images_without_a_value_are_left_out() -> None:
    assert over_images([1.0, None, math.nan, 3.0]) == over_images([1.0, 3.0])
    assert without_value([1.0, None, math.nan, "inf"]) == 2
    assert over_images([None]).text(2) == "–"
    assert over_images([4.0, None]).text(1) == "4.0"


def test_an_infinite_value_is_not_left_out() -> None:
    found = over_images([1.0, "inf", None, 3.0])
    assert (found.mean, found.text(2)) == (math.inf, "∞")
    finite = over_images([9.0])
    assert best_of([found, finite], lower_is_better=True) == 1
    table = main_table([result("rf", nll=[1.0, "inf", None, None]), result("uniform")])
    row = next(
        line for line in table.markdown().splitlines() if line.startswith(f"| {title_of('rf')} ")
    )
    assert "| ∞ |" in row
    assert f"{title_of('rf')}: 2 images without a value of exact NLL." in table.notes


def test_fitting_tells_iterations_and_what_was_waited_for() -> None:
    quick, slow = (
        result("geocfm").model_copy(
            update={"method": {"iterations": 740, "seconds_waiting_for_data": waited}}
        )
        for waited in (0.01, 0.3)
    )
    assert main_table([quick]).notes[-1] == "Fitting took: GeoCFM 3 s, 740 iterations."
    assert main_table([slow]).notes[-1].endswith("740 iterations, 10% of it waiting for data.")


def test_seeds_are_summed_up_by_their_standard_deviation() -> None:
    assert over_seeds([1.0, 2.0, 3.0]) == Estimate(2.0, pytest.approx(1.0), 3)


def test_the_best_is_the_least_or_the_largest() -> None:
    estimates = [Estimate(mean, 0.1, count) for mean, count in ((3, 1), (1, 1), (0, 0), (9, 1))]
    assert best_of(estimates, lower_is_better=True) == 1
    assert best_of(estimates, lower_is_better=False) == 3
    assert best_of(estimates[2:3], lower_is_better=True) is None


def test_markdown_has_the_papers_value_beside_ours() -> None:
    rows = (Row("a", (Cell("1.0", "9.0", best=True),)), Row("b", (Cell("2.0"),)))
    table = Table("Title", ("method", "CD"), (Group("some", rows),), ("Said below.",))
    assert table.markdown().splitlines() == [
        "## Title",
        "",
        "| method | CD |",
        "| --- | --- |",
        "| *some* |  |",
        "| a | **1.0** (9.0) |",
        "| b | 2.0 |",
        "",
        "- Said below.",
    ]


def test_the_papers_values_stand_beside_images_of_its_size_alone() -> None:
    rows = (Row("a", (Cell("1.0", "9.0", best=True),)),)
    table = Table("Title", ("method", "CD"), (Group("some", rows),), ("Said below.",))
    lines = table.of_images(220).markdown().splitlines()
    assert "| a | **1.0** (9.0) |" in lines
    assert lines[-1] == "- In parentheses the paper's."
    lines = table.of_images(110).markdown().splitlines()
    assert "| a | **1.0** |" in lines
    assert "images of 220 px" in lines[-1]


def test_table_1_keeps_the_papers_order_and_never_calls_an_oracle_the_best() -> None:
    results = [
        result("latent", cd=[0.1] * 4),
        result("bayes", cd=[0.2] * 4),
        result("geocfm", cd=[5.0] * 4, f5=[0.9] * 4),
        result("uniform", cd=[50.0] * 4, f5=[0.2] * 4),
        result("unet-seg", cd=[4.0] * 4, f5=[0.1] * 4),
    ]
    lines = main_table(results).markdown().splitlines()
    rows = {line.split(" | ")[0].strip("| "): line for line in lines if line.startswith("| ")}
    assert [name for name in rows if not name.startswith("*")][2:] == [
        *("UNet-Seg", "Uniform", "GeoCFM", "Latent density", "Bayes density")
    ]
    assert "| **4.00 ± 0.00** (29.46 ± 2.18) |" in rows["UNet-Seg"]
    assert "| 5.00 ± 0.00 (9.37 ± 0.62) |" in rows["GeoCFM"]
    assert "| **0.900 ± 0.000** (0.634 ± 0.012) |" in rows["GeoCFM"]
    assert "**" not in rows["Latent density"] + rows["Bayes density"]
    assert any("Calibration of the generator, Uniform: CD [px] 50.00" in line for line in lines)


@pytest.mark.parametrize("width", [80, 200])
def test_in_the_terminal_nothing_is_cut_off(width: int) -> None:
    shown = io.StringIO()
    console = Console(width=width, file=shown)
    table = main_table([result(key, kde_nll=[10.8] * 4) for key in METHODS])
    console.print(ResultsTable(table.content()))
    said = shown.getvalue()
    assert "…" not in said
    assert all(len(line) <= width for line in said.splitlines())
    for word in ("Retrieval-KDE", "(49.61", "10.800", "(13.302", "[px]", "capture"):
        assert word in said


def test_every_method_stands_in_one_group() -> None:
    assert len(METHODS) == len(set(METHODS)) == 16
    assert set(paper.SYNTHETIC) <= set(METHODS)
    assert [key for keys in GROUPS.values() for key in keys][:8] == list(paper.SYNTHETIC)[:8]


def test_the_papers_tables_agree_with_one_another() -> None:
    assert paper.SYNTHETIC["retrieval-kde"]["kde_nll"] == (13.302, 0.440)
    for key, (_, test_cd) in paper.GAP.items():
        assert paper.SYNTHETIC[key]["cd"][0] == test_cd
    last = paper.STEPS["euler", 50]
    assert (last["cd"], last["f5"]) == tuple(
        paper.SYNTHETIC["geocfm"][key][0] for key in ("cd", "f5")
    )
    assert set(paper.POSITIVES) == {100, 75, 50}
    assert [nll for nll, _ in paper.BUDGET.values()] == [11.79, 10.96, 10.79, 10.66, 10.56]
