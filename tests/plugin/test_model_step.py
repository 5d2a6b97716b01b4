"""The Model step: training, or a checkpoint with its card and its layers."""

import json
import shutil

import pytest
from qgis.core import QgsRasterLayer
from qgis.PyQt.QtCore import QMimeData, QPointF, Qt, QUrl
from qgis.PyQt.QtGui import QDropEvent
from raster_making import make_raster

from geocfm_qgis.algorithms.training_parameters import GROUNDS
from geocfm_qgis.bundle import resources_folder
from geocfm_qgis.jobs.checkpoint_card import read_card
from geocfm_qgis.panel.choices import Channel, Choices, ModelChoices
from geocfm_qgis.panel.model_step import ModelStep
from geocfm_qgis.panel.step import READY, TO_DO, WRONG
from geocfm_qgis.panel.summary import summary_sentence

EXAMPLE = str(resources_folder() / "checkpoints" / "murchison_gold.safetensors")
NAMES = ("dist_fault", "dist_greenstone_signed", "fault_density", "greenstone")


def channels(*names):
    return [Channel(f"id_{name}", 1, name) for name in names]


def choose(step, number, name):
    """Choose a band for one of the model's layers, as a user does."""
    combo = step.findChild(type(step.presetCombo), f"matchCombo{number}")
    combo.setCurrentIndex(combo.findText(name))
    combo.activated.emit(combo.currentIndex())


@pytest.fixture
def step(qgis_new_project):
    from qgis.core import QgsProject

    made = ModelStep(QgsProject.instance())
    made.set_channels(channels(*NAMES))
    return made


def test_a_new_step_trains_and_is_ready(step):
    assert step.choices() == ModelChoices()
    assert step.state().level == READY
    assert step.problems() == []
    assert not step.trainBox.isHidden()
    assert step.loadBox.isHidden()


def test_the_state_tells_of_iterations(step):
    step.iterationsSpin.setValue(20)
    assert step.state().text == "train for at most 20 iterations"


def test_choices_go_in_and_out(step):
    chosen = ModelChoices(
        preset="full",
        minutes=12.5,
        device="cuda:1",
        seed=7,
        iterations=300,
        window=64,
        tile=128,
        resolution=250.0,
        ground="region",
        settings=("network.width=32", "training.batch=4"),
    )
    step.set_choices(chosen)
    assert step.choices() == chosen


def test_ensemble_folds_and_effort_go_in_and_out(sample_project):
    step = ModelStep(sample_project)
    raster = sample_project.mapLayersByName("fault_density")[0]
    told = []
    step.changed.connect(lambda: told.append(1))
    step.effortCombo.setLayer(raster)
    assert step.ensembleSpin.value() == 3  # a single network is a matter of chance
    step.ensembleSpin.setValue(4)
    step.foldsSpin.setValue(5)
    assert len(told) == 3
    chosen = step.choices()
    assert (chosen.ensemble, chosen.folds, chosen.effort) == (4, 5, raster.id())
    assert chosen.origins[raster.id()]["name"] == "fault_density"
    step.set_choices(ModelChoices())
    assert step.choices() == ModelChoices()
    assert (step.foldsSpin.text(), step.effortCombo.currentText()) == ("off", "not known")
    step.set_choices(chosen)
    assert step.choices() == chosen


def test_the_searched_ground_is_that_around_occurrences_where_nothing_else_is_learned_from(step):
    combo, check = step.groundCombo, step.positiveOnlyCheck
    offered = [combo.itemData(place) for place in range(combo.count())]
    assert (offered, combo.currentText()) == (list(GROUNDS), "Automatic")
    combo.setCurrentIndex(combo.findData("region"))
    assert (step.choices().ground, step.choices().positive_only) == ("region", False)
    check.setChecked(True)
    assert (step.choices().ground, step.choices().positive_only) == ("window", True)
    assert not combo.isEnabled()
    alone = step.choices()
    check.setChecked(False)
    assert (step.choices().ground, step.choices().positive_only) == ("region", False)
    assert combo.isEnabled()
    step.set_choices(alone)
    assert step.choices() == alone
    assert not combo.isEnabled()
    step.set_choices(ModelChoices())
    assert step.choices() == ModelChoices()
    assert combo.isEnabled()
    # a project that somebody wrote by hand: what contradicts itself never reaches the engine
    step.set_choices(ModelChoices(ground="region", positive_only=True))
    assert (step.choices().ground, step.choices().positive_only) == ("window", True)
    step.set_choices(ModelChoices(ground="no such ground"))
    assert step.choices().ground == "auto"


def test_a_preset_brings_its_minutes_unless_the_user_chose_others(step):
    step.presetCombo.setCurrentIndex(step.presetCombo.findData("full"))
    assert step.choices().minutes == 60
    step.minutesSpin.setValue(7)
    step.presetCombo.setCurrentIndex(step.presetCombo.findData("quick"))
    assert step.choices().minutes == 7


def test_each_preset_says_a_sentence(step):
    seen = set()
    for place in range(step.presetCombo.count()):
        step.presetCombo.setCurrentIndex(place)
        seen.add(step.presetSentence.text())
    assert len(seen) == step.presetCombo.count() == 5
    assert all(text.endswith(".") for text in seen)


def test_devices_of_the_engine_are_offered_and_a_choice_stays(step):
    step.set_devices([("cpu", "CPU (2 threads)"), ("cuda:0", "a card")])
    step.deviceCombo.setCurrentIndex(step.deviceCombo.findData("cuda:0"))
    step.set_devices([("cpu", "CPU (2 threads)")])
    assert step.choices().device == "cuda:0"
    assert step.deviceCombo.findText("CPU (2 threads)") > 0


def test_a_setting_without_a_value_is_named(step):
    step.settingsEdit.setText("network.width=32, depth")
    assert step.state().level == WRONG
    assert "'depth'" in step.problems()[0]


def test_without_a_file_a_model_is_still_to_be_chosen(step):
    step.loadRadio.setChecked(True)
    assert step.state().level == TO_DO
    assert "Choose a model file" in step.problems()[0]
    assert not step.exampleLink.isHidden()


def test_the_example_is_told_in_sentences_and_matched(step):
    step.loadRadio.setChecked(True)
    step.exampleLink.linkActivated.emit("example")
    assert step.choices().checkpoint == EXAMPLE
    assert step.problems() == []
    assert step.state().level == READY
    told = step.cardText.text()
    for part in ("255 occurrences", "occurrences.gpkg", "500 m", "EPSG:20350"):
        assert part in told
    loss = read_card(EXAMPLE)["metrics"]["validation_loss"]
    assert f"validation loss is {loss:.3g} " in told
    assert step.choices().matches == tuple(channels(*NAMES))


def test_layers_are_matched_by_name_and_can_be_corrected(step):
    step.set_channels(channels("Dist Fault", "dist_greenstone_signed", "fault_density", "geology"))
    step.use_checkpoint(EXAMPLE)
    assert "greenstone" in step.problems()[0]
    assert "dist_fault" not in step.problems()[0]
    assert step.choices().matches[0] == Channel("id_Dist Fault", 1, "dist_fault")
    choose(step, 3, "geology")
    assert step.problems() == []
    assert step.choices().matches[3] == Channel("id_geology", 1, "greenstone")
    # a correction outlives a change of the project's layers
    step.set_channels(channels("Dist Fault", *NAMES[1:3], "geology", "greenstone"))
    assert step.choices().matches[3].layer == "id_geology"


def test_one_band_for_two_layers_of_the_model_is_told(step):
    step.use_checkpoint(EXAMPLE)
    assert step.problems() == []
    choose(step, 0, "greenstone")
    assert step.problems() == [
        "The model would get 'greenstone' for several of its layers: dist_fault, greenstone. "
        "Choose another one for all but one of them in step 3."
    ]
    choose(step, 0, "dist_fault")
    assert step.problems() == []


def test_a_model_is_called_by_its_folder_where_its_own_name_says_nothing(step, tmp_path):
    folder = tmp_path / "Gold, 5 minutes"
    folder.mkdir()
    shutil.copy(EXAMPLE, folder / "model.safetensors")
    shutil.copy(EXAMPLE, folder / "copper.safetensors")
    step.use_checkpoint(folder / "model.safetensors")
    assert step.state().text == "Gold, 5 minutes"
    choices = Choices(model=step.choices())
    assert summary_sentence(choices, None).startswith("With the model Gold, 5 minutes:")
    step.use_checkpoint(folder / "copper.safetensors")
    assert step.state().text == "copper"


@pytest.mark.parametrize(
    ("minutes", "iterations", "said"),
    [
        (5.0, None, "Train for 5 minutes (3 networks) on"),
        (1.0, None, "Train for 1 minute (3 networks) on"),
        (5.0, 20, "Train for at most 20 iterations or 5 minutes (3 networks) on"),
        (1.0, 1, "Train for at most 1 iteration or 1 minute (3 networks) on"),
        (0.0, 20, "Train for at most 20 iterations (3 networks) on"),
        (0.0, None, "Train as long as the preset says (3 networks) on"),
    ],
)
def test_the_summary_tells_both_bounds_of_the_training(minutes, iterations, said):
    choices = Choices(model=ModelChoices(minutes=minutes, iterations=iterations))
    assert summary_sentence(choices, None).startswith(said)


def test_matches_go_in_and_out(step):
    matches = (
        Channel("id_greenstone", 1, "dist_fault"),
        *channels("dist_greenstone_signed", "fault_density", "greenstone"),
    )
    chosen = ModelChoices(train=False, checkpoint=EXAMPLE, matches=matches)
    step.set_choices(chosen)
    assert step.choices() == chosen


def test_matches_are_known_by_the_source_of_their_layer(step, tmp_path):
    path = make_raster(tmp_path / "mag.tif")
    mag = step.project.addMapLayer(QgsRasterLayer(path, "mag"))
    step.use_checkpoint(EXAMPLE)
    step.set_channels([Channel(mag.id(), 1, "mag")])
    choose(step, 0, "mag")
    before = Choices.from_dict(json.loads(json.dumps(Choices(model=step.choices()).to_dict())))
    assert [match.layer for match in before.model.matches] == [mag.id()]
    step.project.removeMapLayer(mag.id())
    again = step.project.addMapLayer(QgsRasterLayer(path, "mag"))
    step.set_channels([Channel(again.id(), 1, "mag")])
    step.set_choices(before.model)
    assert [match.layer for match in step.choices().matches] == [again.id()]


def test_what_is_no_model_is_refused_in_a_sentence(step, tmp_path):
    for name, content in (("text.safetensors", b"no model"), ("empty.safetensors", b"")):
        path = tmp_path / name
        path.write_bytes(content)
        step.use_checkpoint(path)
        assert name in step.problems()[0]
        assert step.state().level == WRONG
        assert step.matchBox.isHidden()


def test_a_model_file_can_be_dropped(step, tmp_path):
    path = tmp_path / "my model.safetensors"
    shutil.copyfile(EXAMPLE, path)
    content = QMimeData()
    content.setUrls([QUrl.fromLocalFile("/x/notes.txt"), QUrl.fromLocalFile(str(path))])
    heard = []
    step.changed.connect(lambda: heard.append(step.choices().checkpoint))
    step.dropEvent(
        QDropEvent(
            QPointF(5, 5),
            Qt.DropAction.CopyAction,
            content,
            Qt.MouseButton.LeftButton,
            Qt.KeyboardModifier.NoModifier,
        )
    )
    assert step.choices().checkpoint == str(path)
    assert not step.choices().train
    assert str(path) in heard


def test_every_widget_tells_of_changes(step):
    heard = []
    step.changed.connect(lambda: heard.append(1))
    for change in (
        lambda: step.seedSpin.setValue(9),
        lambda: step.minutesSpin.setValue(9),
        lambda: step.iterationsSpin.setValue(9),
        lambda: step.windowSpin.setValue(90),
        lambda: step.tileSpin.setValue(90),
        lambda: step.resolutionSpin.setValue(90),
        lambda: step.settingsEdit.setText("a=b"),
        lambda: step.groundCombo.setCurrentIndex(2),
        lambda: step.positiveOnlyCheck.setChecked(True),
        lambda: step.presetCombo.setCurrentIndex(2),
        lambda: step.loadRadio.setChecked(True),
    ):
        heard.clear()
        change()
        assert heard, change
