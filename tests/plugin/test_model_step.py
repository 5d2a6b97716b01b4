"""The Model step: training, or a checkpoint with its card and its layers."""

import shutil

import pytest
from qgis.PyQt.QtCore import QMimeData, QPointF, Qt, QUrl
from qgis.PyQt.QtGui import QDropEvent

from geocfm_qgis.bundle import resources_folder
from geocfm_qgis.panel.choices import Channel, ModelChoices
from geocfm_qgis.panel.model_step import ModelStep
from geocfm_qgis.panel.step import READY, TO_DO, WRONG

EXAMPLE = str(resources_folder() / "checkpoints" / "murchison_gold.safetensors")
NAMES = ("dist_fault", "dist_greenstone_signed", "fault_density", "greenstone")


def channels(*names):
    return [Channel(f"id_{name}", 1, name) for name in names]


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
        settings=("network.width=32", "training.batch=4"),
    )
    step.set_choices(chosen)
    assert step.choices() == chosen


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
    for part in ("255 occurrences", "occurrences.gpkg", "500 m", "EPSG:20350", "2.45"):
        assert part in told
    assert step.choices().matches == tuple(channels(*NAMES))


def test_layers_are_matched_by_name_and_can_be_corrected(step):
    step.set_channels(channels("Dist Fault", "dist_greenstone_signed", "fault_density", "geology"))
    step.use_checkpoint(EXAMPLE)
    assert "greenstone" in step.problems()[0]
    assert "dist_fault" not in step.problems()[0]
    assert step.choices().matches[0] == Channel("id_Dist Fault", 1, "dist_fault")
    combo = step.findChild(type(step.presetCombo), "matchCombo3")
    combo.setCurrentIndex(combo.findText("geology"))
    combo.activated.emit(combo.currentIndex())
    assert step.problems() == []
    assert step.choices().matches[3] == Channel("id_geology", 1, "greenstone")
    # a correction outlives a change of the project's layers
    step.set_channels(channels("Dist Fault", *NAMES[1:3], "geology", "greenstone"))
    assert step.choices().matches[3].layer == "id_geology"


def test_matches_go_in_and_out(step):
    matches = (
        Channel("id_greenstone", 1, "dist_fault"),
        *channels("dist_greenstone_signed", "fault_density", "greenstone"),
    )
    chosen = ModelChoices(train=False, checkpoint=EXAMPLE, matches=matches)
    step.set_choices(chosen)
    assert step.choices() == chosen


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
        lambda: step.presetCombo.setCurrentIndex(2),
        lambda: step.loadRadio.setChecked(True),
    ):
        heard.clear()
        change()
        assert heard, change
