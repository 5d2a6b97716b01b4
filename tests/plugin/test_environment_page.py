"""The page, driven through its widgets; environments are really made, from wheels made here."""

import os
import shutil
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from environment_support import (
    BASE_PYTHON,
    let_work,
    quick_python,
    wait_until,
    write_wheel,
)
from qgis.core import QgsApplication
from qgis.PyQt import sip
from qgis.PyQt.QtCore import QCoreApplication, QTimer
from qgis.PyQt.QtWidgets import QApplication, QMessageBox

from geocfm_qgis import settings
from geocfm_qgis.environment import create_form, installer, place
from geocfm_qgis.environment.base_python import FoundPython, ask
from geocfm_qgis.environment.page import EnvironmentPage
from geocfm_qgis.environment.place import Place
from geocfm_qgis.environment.requirements import engine_requirements


@dataclass(frozen=True)
class Device:
    name: str
    description: str


@dataclass(frozen=True)
class Hands:
    versions: dict
    devices: tuple


class Unusable(Exception):
    message, hint, details = "It lacks torch.", "Install it.", "No module named torch"


def friendly(python, is_cancelled=None):
    """Stand for the handshake: any Python that runs will do."""
    version = ask(python).version
    return Hands({"geocfm": "0.1", "torch": "2.13", "python": version}, (Device("cpu", "CPU, 2"),))


def unfriendly(python, is_cancelled=None):
    raise Unusable


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """A stand-in for each package that the engine needs."""
    folder = tmp_path_factory.mktemp("Räder für QGIS")
    for requirement in engine_requirements():
        name = requirement.split(";")[0].split(">")[0].strip()
        write_wheel(folder, name, _pinned_or_new(name))
    return folder


def _pinned_or_new(name):
    from geocfm_qgis.environment.requirements import RequirementsUnreadable, pinned

    try:
        return pinned(name).split("==")[1]
    except RequirementsUnreadable:
        return "99.0"


@pytest.fixture
def found(monkeypatch):
    """The Pythons that a search finds, without the search."""
    version = ask(BASE_PYTHON).version
    found = [FoundPython(quick_python(), version, ask(BASE_PYTHON).base, has_pip=True)]
    monkeypatch.setattr(create_form, "find_pythons", lambda is_cancelled: found)
    return found


@pytest.fixture
def open_page(own_settings, qgis_parent, found):
    """Open the page as the options do; its folder is a new one with spaces and umlauts."""
    pages = []

    def make(folder, wheels_folder="", check=friendly):
        page = EnvironmentPage(check=check)
        pages.append(page)
        page.show()
        wait_until(lambda: not page.createForm.is_searching())
        page.createForm.folderFile.setFilePath(str(folder))
        page.createForm.wheelsFile.setFilePath(str(wheels_folder))
        row = page.createForm.baseCombo.findData(quick_python())
        page.createForm.baseCombo.setCurrentIndex(row)
        return page

    yield make
    installer.shutdown()
    wait_until(lambda: installer.task_at_work() is None)
    for page in pages:
        page.close()
        page.deleteLater()
    let_work(0.1)


def idle(page):
    return lambda: installer.task_at_work() is None and page.createForm.isVisible()


def test_nothing_happens_before_the_click(open_page, tmp_path):
    folder = tmp_path / "Große Umgebung" / "engine"
    page = open_page(folder)
    let_work(0.2)
    assert "no engine" in page.statusTitle.text()
    assert not folder.parent.exists()
    assert installer.task_at_work() is None
    said, button = page.createForm.planText.text(), page.createForm.createButton
    assert str(folder) in said
    assert "1.7 GB" in said
    assert "1.7 GB" in button.text()
    assert button.text().endswith("engine")
    assert button.isEnabled()
    assert page.createForm.removeButton.isHidden()


def test_creates_repairs_and_removes(open_page, tmp_path, wheels):
    folder = tmp_path / "Große Umgebung" / "engine"
    page = open_page(folder, wheels)
    changes = []
    page.engine_changed.connect(lambda: changes.append(settings.engine_python()))
    stages = []
    page.createForm.createButton.click()
    installer.task_at_work().stage.connect(lambda stage: stages.append(stage.title))
    assert page.workView.progressBox.isVisible()
    assert not page.createForm.isVisible()
    wait_until(idle(page))
    assert "ready" in page.workView.outcomeLabel.text(), page.workView.logText.toPlainText()
    assert len(dict.fromkeys(stages)) == 3
    python = str(Place(folder).python)
    assert changes == [python]
    assert page.pythonFile.filePath() == python
    assert settings.environment_folder() == str(folder)
    assert "The engine is ready" in page.statusTitle.text()
    assert "CPU, 2" in page.statusText.text()
    assert "torch" in page.workView.logText.toPlainText()
    page.workView.copyButton.click()
    assert "torch" in QgsApplication.clipboard().text()

    page.createForm.createButton.click()
    assert "Repair" in page.createForm.createButton.text()
    wait_until(idle(page))
    assert Place(folder).state() == place.FINISHED

    answer_question(QMessageBox.StandardButton.No)
    page.createForm.removeButton.click()
    assert installer.task_at_work() is None
    answer_question(QMessageBox.StandardButton.Yes)
    page.createForm.removeButton.click()
    wait_until(idle(page))
    assert not folder.exists()
    assert settings.engine_python() == ""
    assert page.pythonFile.filePath() == ""
    assert "no engine" in page.statusTitle.text()


def answer_question(button):
    """Click a button of the question that the next click asks."""

    def answer():
        box = QApplication.activeModalWidget()
        assert isinstance(box, QMessageBox)
        box.button(button).click()

    QTimer.singleShot(200, answer)


def test_cancel_by_its_button_leaves_nothing(open_page, tmp_path, wheels, found):
    found[0] = replace(found[0], path=BASE_PYTHON)  # which takes its time
    folder = tmp_path / "engine"
    page = open_page(folder, wheels)
    page.createForm.baseCombo.setCurrentIndex(0)
    page.createForm.createButton.click()
    wait_until(lambda: (folder / "venv").exists())
    page.workView.cancelButton.click()
    wait_until(idle(page))
    assert "Cancelled" in page.workView.outcomeLabel.text()
    assert not folder.exists()
    assert settings.engine_python() == ""


def test_the_search_finds_the_pythons_of_this_computer(own_settings, qgis_parent):
    page = EnvironmentPage(check=friendly)
    assert not page.createForm.is_searching()  # QGIS makes the page whenever its options open
    page.useWay.setChecked(True)
    page.show()
    let_work(0.1)
    assert not page.createForm.is_searching()
    page.createWay.setChecked(True)
    assert page.createForm.is_searching()
    assert not page.createForm.createButton.isEnabled()
    wait_until(lambda: not page.createForm.is_searching())
    assert page.createForm.baseCombo.findData(BASE_PYTHON) >= 0
    page.deleteLater()


def test_the_base_of_an_environment_is_found_again(open_page, tmp_path, found):
    folder = tmp_path / "engine"
    (folder / "venv").mkdir(parents=True)
    (folder / "venv" / "pyvenv.cfg").write_text("home = /usr/local/bin\n")
    others = ("/us", "/usr", "/usr/local", "/usr/lo")
    found[1:] = [FoundPython(f"{base}/python3", "3.12.1", base, True) for base in others]
    settings.set_environment_folder(str(folder))
    page = EnvironmentPage(check=friendly)
    page.show()
    wait_until(lambda: not page.createForm.is_searching())
    assert page.createForm.baseCombo.currentData() == "/usr/local/python3"
    page.deleteLater()


def test_a_page_opened_later_shows_the_work_at_hand(open_page, tmp_path, wheels):
    hold = threading.Event()

    def patient(python, is_cancelled):
        hold.wait(30)
        return friendly(python)

    first = open_page(tmp_path / "engine", wheels, check=patient)
    first.createForm.createButton.click()
    wait_until(lambda: "Start the engine" in first.workView.stageLabel.text())
    first.close()
    first.deleteLater()
    let_work(0.1)
    second = EnvironmentPage(check=friendly)
    second.show()
    assert "Start the engine" in second.workView.stageLabel.text()
    assert "pip install" in second.workView.logText.toPlainText()
    assert not second.createForm.isVisible()
    hold.set()
    wait_until(idle(second))
    assert "The engine is ready" in second.statusTitle.text()
    second.deleteLater()


def test_a_failure_is_said_with_its_remedy_and_can_be_gone_on_from(open_page, tmp_path, wheels):
    some = tmp_path / "some wheels"
    shutil.copytree(wheels, some)
    for wheel in some.glob("rich*"):
        wheel.unlink()
    page = open_page(tmp_path / "engine", some)
    page.createForm.createButton.click()
    wait_until(idle(page))
    said = page.workView.outcomeLabel.text()
    assert "fitting version" in said
    assert "folder of wheels" in said
    assert not page.workView.logBox.isCollapsed()
    assert settings.engine_python() == ""
    assert "Go on" in page.createForm.createButton.text()
    page.createForm.wheelsFile.setFilePath(str(wheels))
    page.createForm.createButton.click()
    wait_until(idle(page))
    assert "The engine is ready" in page.statusTitle.text()


def test_a_folder_of_others_is_refused_before_the_click(open_page, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.docx").write_text("work")
    page = open_page(tmp_path / "thesis")
    assert not page.createForm.createButton.isEnabled()
    assert "other files" in page.createForm.planText.text()
    assert page.createForm.removeButton.isHidden()


def test_the_standalone_python_is_explained_before_it_is_fetched(open_page, tmp_path):
    page = open_page(tmp_path / "engine")
    combo = page.createForm.baseCombo
    combo.setCurrentIndex(combo.count() - 1)
    said = page.createForm.planText.text()
    assert "Fetch a standalone Python 3.12" in said
    assert page.createForm.plan().base_python == ""


def test_the_fields_for_the_network_reach_the_plan(open_page, tmp_path):
    form = open_page(tmp_path / "engine").createForm
    form.proxyEdit.setText("http://proxy:3128")
    form.indexEdit.setText("https://index.example/simple")
    plan = form.plan()
    assert plan.proxy == "http://proxy:3128"
    assert plan.package_index == "https://index.example/simple"
    form.copyWheelsButton.click()
    command = QgsApplication.clipboard().text()
    assert command.startswith("python -m pip download")
    assert f"--python-version 3.{sys.version_info[1]} " in command  # of the base that is chosen
    assert "rasterio==" in command
    form.baseCombo.setCurrentIndex(form.baseCombo.count() - 1)  # the standalone one
    form.copyWheelsButton.click()
    assert "--python-version 3.12 " in QgsApplication.clipboard().text()


def test_uses_a_python_that_shakes_hands(open_page, tmp_path):
    page = open_page(tmp_path / "engine")
    changes = []
    page.engine_changed.connect(lambda: changes.append(True))
    page.useWay.setChecked(True)
    assert page.useBox.isVisible()
    assert not page.createForm.isVisible()
    page.pythonFile.setFilePath(BASE_PYTHON)
    page.checkButton.click()
    wait_until(page.checkButton.isEnabled)
    assert settings.engine_python() == BASE_PYTHON
    assert settings.known_devices() == [("cpu", "CPU, 2")]
    assert changes == [True]
    assert "PyTorch 2.13" in page.statusText.text()


def test_a_python_that_does_not_is_not_used_and_the_reason_is_said(open_page, tmp_path):
    page = open_page(tmp_path / "engine", check=unfriendly)
    page.useWay.setChecked(True)
    page.pythonFile.setFilePath(BASE_PYTHON)
    page.checkButton.click()
    assert not page.checkButton.isEnabled()
    wait_until(page.checkButton.isEnabled)
    assert settings.engine_python() == ""
    assert "It lacks torch." in page.workView.outcomeLabel.text()
    assert "Install it." in page.workView.outcomeLabel.text()
    assert "No module named torch" in page.workView.logText.toPlainText()


def test_a_check_ends_with_the_page(open_page, tmp_path):
    at_work, ended = threading.Event(), threading.Event()

    def patient(python, is_cancelled):
        at_work.set()
        while not is_cancelled():
            ended.wait(0.01)
        ended.set()

    page = EnvironmentPage(check=patient)
    page.useWay.setChecked(True)
    page.pythonFile.setFilePath(BASE_PYTHON)
    page.checkButton.click()
    assert at_work.wait(10)
    sip.delete(page)
    wait_until(ended.is_set, 10)
    let_work(0.1)
    assert settings.engine_python() == ""


def test_the_real_handshake_tells_versions_and_devices(own_settings, qgis_parent, engine_python):
    page = EnvironmentPage()
    page.show()
    page.useWay.setChecked(True)
    page.pythonFile.setFilePath(engine_python)
    page.checkButton.click()
    wait_until(page.checkButton.isEnabled)
    assert settings.engine_python() == engine_python, page.workView.outcomeLabel.text()
    assert settings.known_devices()[0][0] == "cpu"
    assert settings.known_engine()["versions"]["geocfm"]
    page.deleteLater()


def test_says_when_an_update_is_needed(open_page, tmp_path, wheels, monkeypatch):
    page = open_page(tmp_path / "engine", wheels)
    page.createForm.createButton.click()
    wait_until(idle(page))
    monkeypatch.setattr(place, "fingerprint", lambda: "of another version")
    again = open_page(tmp_path / "engine", wheels)
    assert "needs an update" in again.statusTitle.text()
    assert again.createForm.createButton.text() == "Update"


def test_an_engine_set_from_outside_is_said(open_page, tmp_path, monkeypatch):
    monkeypatch.setenv("GEOCFM_PYTHON", "/server/python")
    page = open_page(tmp_path / "engine")
    assert "from outside" in page.statusTitle.text()
    assert "/server/python" in page.statusText.text()


@pytest.mark.parametrize("end", ["of the plugin", "of QGIS"])
def test_the_end_ends_the_installation(open_page, tmp_path, wheels, found, end):
    found[0] = replace(found[0], path=BASE_PYTHON)  # which takes its time
    folder = tmp_path / "engine"
    page = open_page(folder, wheels)
    page.createForm.baseCombo.setCurrentIndex(0)
    page.createForm.createButton.click()
    wait_until(lambda: (folder / "venv").exists())
    if end == "of the plugin":
        installer.shutdown()
    else:
        QCoreApplication.instance().aboutToQuit.emit()
    assert not folder.exists()
    assert not Path(f"{folder}.lock").exists()
    assert os.path.isdir(wheels)
