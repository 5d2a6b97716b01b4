import pytest
from environment_support import let_work, wait_until
from qgis.core import QgsApplication

from geocfm_qgis import settings
from geocfm_qgis.options_page import OPTIONS_PAGE, GeoCFMOptionsFactory


@pytest.fixture
def open_options(own_settings, qgis_parent):
    factory = GeoCFMOptionsFactory()
    pages = []

    def make():
        page = factory.createWidget(None)
        pages.append(page)
        wait_until(lambda: not page.environmentPage.createForm.is_searching())
        return page

    yield make
    for page in pages:
        page.deleteLater()
    let_work(0.1)


def items(combo):
    return [combo.itemData(row) for row in range(combo.count())]


def test_the_factory_names_the_page(open_options):
    factory = GeoCFMOptionsFactory()
    assert factory.title() == "GeoCFM"
    assert not factory.icon().isNull()
    assert open_options().objectName() == OPTIONS_PAGE


def test_device_and_folder_are_remembered_with_ok_only(open_options, tmp_path):
    page = open_options()
    page.deviceCombo.setCurrentIndex(page.deviceCombo.findData("cpu"))
    page.resultsFile.setFilePath(str(tmp_path))
    assert settings.default_device() == "auto"
    page.apply()
    assert settings.default_device() == "cpu"
    assert settings.results_folder() == str(tmp_path)
    again = open_options()
    assert again.deviceCombo.currentData() == "cpu"
    assert again.resultsFile.filePath() == str(tmp_path)


def test_the_devices_are_those_of_the_engine(open_options):
    settings.set_engine_python("/opt/python")
    settings.set_known_engine("/opt/python", {}, [("cpu", "CPU"), ("cuda", "NVIDIA RTX 4090")])
    page = open_options()
    assert items(page.deviceCombo) == ["auto", "cpu", "cuda"]
    assert page.deviceCombo.itemText(2) == "NVIDIA RTX 4090"


def test_a_device_that_is_away_is_kept(open_options):
    settings.set_default_device("cuda:1")
    page = open_options()
    assert page.deviceCombo.currentData() == "cuda:1"
    page.apply()
    assert settings.default_device() == "cuda:1"


def test_new_devices_appear_when_the_engine_changes(open_options):
    page = open_options()
    settings.set_engine_python("/opt/python")
    settings.set_known_engine("/opt/python", {}, [("mps", "Apple M3")])
    page.environmentPage.engine_changed.emit()
    assert items(page.deviceCombo) == ["auto", "mps"]


def refuse(python, is_cancelled=None):
    raise RuntimeError("It lacks torch.")


def test_ok_takes_no_python_that_was_not_seen_to_work(open_options):
    settings.set_engine_python("/opt/good/python")
    page = open_options()
    inner = page.environmentPage
    inner.useWay.setChecked(True)
    inner.pythonFile.setFilePath("/usr/bin/python3")
    assert "press “Check and use”" in inner.useResult.text()
    page.apply()
    assert settings.engine_python() == "/opt/good/python"
    inner._check = refuse
    inner.checkButton.click()
    wait_until(inner.checkButton.isEnabled)
    assert "not used" in inner.useResult.text()
    page.apply()
    assert settings.engine_python() == "/opt/good/python"


def test_ok_does_not_forget_an_engine_made_meanwhile(open_options):
    page = open_options()
    page.environmentPage.useWay.setChecked(True)
    settings.set_engine_python("/opt/made/python")  # by another window
    page.apply()
    assert settings.engine_python() == "/opt/made/python"


def test_opening_the_options_starts_nothing(open_options):
    page = open_options()
    assert not page.environmentPage.createForm.is_searching()
    assert QgsApplication.taskManager().countActiveTasks() == 0
