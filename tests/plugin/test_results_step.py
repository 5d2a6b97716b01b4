"""The Results step: products, names, places, and what is there already."""

import os

import pytest

from geocfm_qgis import settings
from geocfm_qgis.panel import result_files
from geocfm_qgis.panel.choices import ProductChoice, ResultChoices
from geocfm_qgis.panel.products import all_products
from geocfm_qgis.panel.results_step import ResultsStep
from geocfm_qgis.panel.step import READY, TO_DO, WRONG


@pytest.fixture
def step(qgis_new_project, tmp_path):
    from qgis.core import QgsProject

    settings.set_results_folder(str(tmp_path / "results"))
    made = ResultsStep(QgsProject.instance())
    made.set_subject("gold deposits", True, True)
    return made


def row(step, key):
    return next(each for each in step.rows if each.product.key == key)


def tick(step, key, ticked=True):
    row(step, key).tick.setChecked(ticked)


def keys(step):
    return [each.key for each in step.choices().products]


def test_every_product_is_a_row(step):
    assert [row.product.key for row in step.rows] == [each.key for each in all_products()]
    assert keys(step) == ["prospectivity", "uncertainty", "targets", "samples", "evaluation"]
    assert step.state().level == READY


def test_options_and_file_names_are_chosen_per_product(step):
    samples = next(row for row in step.rows if row.product.key == "samples")
    samples.options["draws"].setValue(2)
    samples.options["points"].setValue(30)
    samples.file_edit.setText("my points")
    assert step.choices().products[3] == ProductChoice(
        "samples", "my points.gpkg", {"draws": 2, "points": 30}
    )


def test_choices_go_in_and_out(step, tmp_path):
    chosen = ResultChoices(
        name="a run",
        folder=str(tmp_path / "elsewhere"),
        model_file="mine.safetensors",
        products=(ProductChoice("samples", "p.gpkg", {"draws": 1, "points": 5}),),
    )
    step.set_choices(chosen)
    assert step.choices() == chosen
    step.set_choices(ResultChoices(name="b", folder=""))
    assert step.choices().folder == ""
    assert step.choices().products == ()


def test_the_name_comes_from_the_subject_and_stays_free(step):
    first = step.choices().name
    assert first.startswith("gold deposits 20")
    os.makedirs(result_files.run_folder(step.choices()))
    with open(result_files.model_path(step.choices()), "w") as file:
        file.write("x")
    step.refresh()
    assert step.choices().name == f"{first} (2)"
    step.set_taken([result_files.run_folder(step.choices())])
    assert step.choices().name == f"{first} (3)"
    assert step.problems() == []


def test_results_that_are_there_need_the_tick(step):
    assert step.overwriteCheck.isHidden()
    step.nameEdit.setText("mine")
    os.makedirs(result_files.run_folder(step.choices()))
    path = result_files.product_path(step.choices(), step.choices().products[0])
    with open(path, "w") as file:
        file.write("x")
    step.refresh()
    assert not step.overwriteCheck.isHidden()
    assert "prospectivity.tif" in step.overwriteSentence.text()
    assert step.state().level == WRONG
    assert "Replace results" in step.problems()[0]
    step.overwriteCheck.setChecked(True)
    assert step.problems() == []
    assert step.choices().overwrite
    step.take_free_name()
    assert step.choices().name == "mine (2)"
    assert not step.choices().overwrite


def test_an_interrupted_run_may_go_on_or_begin_anew(step):
    step.nameEdit.setText("mine")
    folder = result_files.run_folder(step.choices())
    os.makedirs(os.path.join(folder, ".model.safetensors.work"))
    step.refresh()
    assert not step.overwriteCheck.isHidden()
    assert "goes on where it stopped" in step.overwriteSentence.text()
    assert step.problems() == []
    with open(result_files.model_path(step.choices()), "w") as file:  # a part is done
        file.write("x")
    step.refresh()
    assert "goes on where it stopped" in step.overwriteSentence.text()
    assert step.problems() == []


def test_ticks_are_kept_for_each_way_to_a_model(step):
    tick(step, "samples", False)
    step.set_subject("a model", False, True)
    assert keys(step) == ["prospectivity", "targets", "samples"]
    tick(step, "prospectivity", False)
    step.set_subject("gold deposits", True, True)
    assert keys(step) == ["prospectivity", "uncertainty", "targets", "evaluation"]
    step.set_subject("a model", False, True)
    assert keys(step) == ["samples"]
    step.reset()
    assert keys(step) == ["prospectivity", "targets", "samples"]


def test_what_is_made_from_the_map_needs_the_map(step):
    assert keys(step) == ["prospectivity", "uncertainty", "targets", "samples", "evaluation"]
    tick(step, "prospectivity", False)
    assert keys(step) == ["samples", "evaluation"]
    targets = row(step, "targets")
    assert not targets.tick.isEnabled()
    assert "prospectivity raster" in targets.tick.toolTip()
    tick(step, "prospectivity")
    assert keys(step) == ["prospectivity", "uncertainty", "targets", "samples", "evaluation"]


def test_targets_have_a_number_a_share_and_a_distance(step):
    options = row(step, "targets").options
    chosen = {each.key: each.options for each in step.choices().products}["targets"]
    assert chosen == {"number": 20, "area_share": 5.0, "exclude": 0.0}
    assert options["exclude"].text() == "any distance"
    options["area_share"].setValue(2.5)
    options["exclude"].setValue(10)
    assert options["exclude"].text() == "10.0 km"
    kept = step.choices()
    step.set_choices(ResultChoices(name="b"))
    step.set_choices(kept)
    assert step.choices() == kept
    assert step.problems() == []
    step.set_subject("a model", False, False)
    row(step, "targets").options["exclude"].setValue(10)
    assert "need to know where these are" in step.problems()[0]


def test_a_typed_name_is_proposed_for_the_next_run(step):
    step.nameEdit.setText("Murchison gold")
    folder = result_files.run_folder(step.choices())
    step.make_ready_for_next()
    assert step.choices().name == "Murchison gold"  # interrupted, it would go on
    step.set_taken([folder])
    assert step.choices().name == "Murchison gold (2)"
    assert step.problems() == []
    step.set_subject("copper", True, True)
    assert step.choices().name.startswith("copper ")


def test_the_name_of_an_interrupted_run_stays(step):
    name = step.choices().name
    folder = result_files.run_folder(step.choices())
    os.makedirs(os.path.join(folder, ".prospectivity.tif.work"))
    with open(result_files.model_path(step.choices()), "w") as file:
        file.write("x")
    step.refresh()
    assert step.choices().name == name


def test_a_loaded_model_makes_no_model_and_no_evaluation_by_default(step):
    step.set_subject("murchison_gold", False, True)
    assert keys(step) == ["prospectivity", "targets", "samples"]
    assert step.model_edit.isHidden()
    for row in step.rows:
        row.tick.setChecked(False)
    assert step.state().level == TO_DO
    assert "Tick what you want" in step.problems()[0]


def test_an_evaluation_needs_occurrences(step):
    step.set_subject("x", True, False)
    assert keys(step) == ["prospectivity", "uncertainty", "targets", "samples"]
    evaluation = step.rows[-1]
    assert not evaluation.tick.isEnabled()
    assert "Occurrences step" in evaluation.tick.toolTip()
    step.set_subject("x", True, True)
    assert "evaluation" in keys(step)


def test_two_results_of_one_name_are_refused(step):
    step.rows[0].file_edit.setText("same.x")
    row(step, "samples").file_edit.setText("same.x")
    assert step.problems() == []  # their suffixes differ
    row(step, "evaluation").file_edit.setText("prospectivity.tif")
    step.rows[0].file_edit.setText("")
    assert "same name of file" in step.problems()[0]


def test_the_folder_is_that_of_the_settings_or_beside_the_project_or_at_home(step, tmp_path):
    from pathlib import Path

    from qgis.core import QgsProject

    project = QgsProject.instance()
    assert step.choices().folder == str(tmp_path / "results")
    settings.set_results_folder("")
    assert result_files.default_folder(project) == str(Path.home() / "GeoCFM")
    assert project.write(str(tmp_path / "p.qgz"))
    assert result_files.default_folder(project) == str(tmp_path / "geocfm")


def test_what_was_not_chosen_stays_open_in_the_project_file(step, tmp_path):
    kept = step.choices_to_keep()
    assert kept.name == ""
    settings.set_results_folder(str(tmp_path / "moved"))
    step.set_choices(kept)
    assert step.choices().folder == str(tmp_path / "moved")
    assert step.choices().name.startswith("gold deposits 20")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Au/Cu: north?", "Au_Cu_ north_"),
        ("  . ", "_"),
        ("con", "_con"),
        ("Gold (Ñandú)", "Gold (Ñandú)"),
        ("x" * 300, "x" * 80),
    ],
)
def test_names_of_files_suit_every_system(text, name):
    assert result_files.file_name(text) == name
