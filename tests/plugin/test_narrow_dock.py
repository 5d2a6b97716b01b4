"""The steps in a dock of a laptop's screen: nothing is cut off, in no language."""

import pytest
from qgis.PyQt.QtCore import QCoreApplication, QTranslator
from qgis.PyQt.QtGui import QFont
from qgis.PyQt.QtWidgets import QApplication

from building.translations import compile_ts
from geocfm_qgis.bundle import resources_folder
from geocfm_qgis.panel.layers_step import LayersStep
from geocfm_qgis.panel.model_step import ModelStep
from geocfm_qgis.panel.occurrences_step import OccurrencesStep
from geocfm_qgis.panel.results_step import ResultsStep

WIDEST = {"en": 340, "de": 380}  # pixels


@pytest.fixture(params=WIDEST)
def language(request, tmp_path, qgis_app):
    font = QApplication.font()
    QApplication.setFont(QFont("DejaVu Sans", 9))
    translator = QTranslator()
    if request.param != "en":
        file = tmp_path / "texts.qm"
        catalogue = resources_folder() / "i18n" / f"geocfm_{request.param}.ts"
        file.write_bytes(compile_ts(catalogue))
        assert translator.load(str(file))
        QCoreApplication.installTranslator(translator)
    yield request.param
    QCoreApplication.removeTranslator(translator)
    QApplication.setFont(font)


def test_the_steps_are_narrow(language, sample_project):
    layers, points, model, results = (
        kind(sample_project) for kind in (LayersStep, OccurrencesStep, ModelStep, ResultsStep)
    )
    points.filterCheck.setChecked(True)
    model.advancedBox.setCollapsed(False)
    for row in results.rows:
        row.tick.setChecked(True)
    widths = [step.minimumSizeHint().width() for step in (layers, points, model, results)]
    model.set_channels(layers.all_channels())
    model.use_checkpoint(resources_folder() / "checkpoints" / "murchison_gold.safetensors")
    widths.append(model.minimumSizeHint().width())
    assert max(widths) <= WIDEST[language], widths


def test_no_text_of_a_number_box_is_cut_off(language, sample_project):
    step = ModelStep(sample_project)
    step.advancedBox.setCollapsed(False)
    step.resize(WIDEST[language], 800)
    step.show()
    QApplication.processEvents()
    boxes = (step.iterationsSpin, step.windowSpin, step.tileSpin, step.resolutionSpin)
    for box in (*boxes, step.foldsSpin):
        needed = box.fontMetrics().horizontalAdvance(box.specialValueText())
        assert box.lineEdit().width() >= needed, box.objectName()


def test_no_searched_ground_is_cut_off(language, sample_project):
    step = ModelStep(sample_project)
    step.advancedBox.setCollapsed(False)
    step.resize(WIDEST[language], 800)
    step.show()
    QApplication.processEvents()
    box = step.groundCombo
    texts = [box.itemText(number) for number in range(box.count())]
    frame = 2 * box.fontMetrics().height()  # the arrow and the margins
    assert max(map(box.fontMetrics().horizontalAdvance, texts)) + frame <= box.width()
