"""The fields of "Create one for me": where, from which Python, for which processor, from where."""

import os
import shutil

from qgis.core import QgsApplication
from qgis.gui import QgsFileWidget
from qgis.PyQt.QtCore import pyqtSignal
from qgis.PyQt.QtWidgets import QComboBox, QMessageBox, QWidget

from .. import settings
from ..background import BackgroundCall
from ..bundle import load_form
from ..child_environment import installer_environment, qgis_proxy
from ..plain_text import as_html, as_tip
from ..translation import tr
from .base_python import find_pythons
from .failures import without_passwords
from .offline import wheels_command
from .place import ABSENT, FOREIGN, Place, default_folder, is_inside
from .plan import STANDALONE_VERSION, Plan, builds
from .plan_text import build_label, button_text, plan_html


class CreateForm(QWidget):
    """Fills in a Plan; its button is the user's consent to it."""

    agreed = pyqtSignal(object)  # Plan
    removal_asked = pyqtSignal(object)  # Place

    def __init__(self, parent=None):
        super().__init__(parent)
        load_form("environment_create", self)
        self._pythons = None  # not looked for yet
        self._search = None
        for widget in (self.folderFile, self.wheelsFile):
            widget.setStorageMode(QgsFileWidget.StorageMode.GetDirectory)
        self.folderFile.setFilePath(settings.environment_folder() or default_folder())
        self.folderFile.setDialogTitle(tr("The folder for the engine"))
        self.wheelsFile.setFilePath(settings.wheels_folder())
        self.wheelsFile.setDialogTitle(tr("A folder of wheels"))
        self.indexEdit.setText(settings.package_index())
        self._show_proxy_of_qgis()
        for build in builds():
            self.buildCombo.addItem(build_label(build), build)
        begun_with = self.buildCombo.findData(self.place().build())
        self.buildCombo.setCurrentIndex(max(0, begun_with))
        policy = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        self.baseCombo.setSizeAdjustPolicy(policy)
        self.networkBox.setCollapsed(not (settings.wheels_folder() or settings.package_index()))

        self.folderFile.fileChanged.connect(self.refresh)
        self.wheelsFile.fileChanged.connect(self.refresh)
        self.baseCombo.currentIndexChanged.connect(self.refresh)
        self.buildCombo.currentIndexChanged.connect(self.refresh)
        self.indexEdit.textChanged.connect(self.refresh)
        self.searchButton.clicked.connect(self.search)
        self.copyWheelsButton.clicked.connect(self._copy_wheels_command)
        self.createButton.clicked.connect(self._agree)
        self.removeButton.clicked.connect(self._ask_for_removal)
        self.refresh()

    def showEvent(self, event):
        """Look for Pythons when the form is first seen: QGIS makes all pages of its options."""
        super().showEvent(event)
        if self._pythons is None:
            self.search()

    def place(self):
        """Give the folder chosen."""
        return Place(os.path.expanduser(self.folderFile.filePath().strip()) or default_folder())

    def plan(self):
        """Give the plan as the fields say it."""
        base = self.baseCombo.currentData() or ""
        with_pip = [python.path for python in self._pythons or () if python.has_pip]
        path = installer_environment(proxy="").get("PATH")
        return Plan(
            folder=str(self.place().folder),
            base_python=base,
            uv="" if base else shutil.which("uv", path=path) or "",
            helper_python="" if base or not with_pip else with_pip[0],
            build=self.buildCombo.currentData(),
            package_index=self.indexEdit.text().strip(),
            wheels_folder=self.wheelsFile.filePath().strip(),
            proxy=self.proxyEdit.text().strip() or qgis_proxy(),
        )

    def search(self):
        """Look for Pythons in the background."""
        if self._search is not None:
            return
        self.baseCombo.clear()
        self.baseCombo.addItem(tr("Looking for Pythons on this computer …"))
        self._search = BackgroundCall(tr("GeoCFM: looking for Python"), find_pythons)
        self._search.done.connect(self._show_pythons)
        self._search.failed.connect(self._show_no_pythons)
        self._search.stopped.connect(self._show_no_pythons)
        self.destroyed.connect(self._search.cancel)
        self.refresh()
        self._search.start()

    def is_searching(self):
        """Tell whether Pythons are still being looked for."""
        return self._search is not None

    def refresh(self):
        """Say anew what would happen, and what the button does."""
        if self._pythons is None or self._search is not None:
            self.planText.setText("")
            self.createButton.setText(tr("Install"))
            self.createButton.setEnabled(False)
            self.removeButton.setVisible(False)
            return
        plan, state = self.plan(), self.place().state()
        if state == FOREIGN:
            self.planText.setText(
                as_html(
                    tr(
                        "The folder {folder} holds other files. Choose a new or an empty one."
                    ).format(folder=plan.folder)
                )
            )
        else:
            self.planText.setText(plan_html(plan, state))
        self.createButton.setText(button_text(plan, state))
        self.createButton.setToolTip(as_tip(plan.folder))
        self.createButton.setEnabled(state != FOREIGN and not plan.problems())
        self.removeButton.setVisible(state not in (ABSENT, FOREIGN))

    def _show_pythons(self, search):
        self._list_pythons(search.result)

    def _show_no_pythons(self, _error=None):
        self._list_pythons([])

    def _list_pythons(self, pythons):
        self._search = None
        self._pythons = pythons
        fitting = [python for python in pythons if not python.problem]
        self.baseCombo.clear()
        for python in fitting:
            self.baseCombo.addItem(python.label, python.path)
        standalone = tr("A standalone Python {version}, to be downloaded")
        self.baseCombo.addItem(standalone.format(version=STANDALONE_VERSION), "")
        refused = [f"{python.label}: {python.problem}" for python in pythons if python.problem]
        self.baseCombo.setToolTip(as_tip("\n".join(refused)))
        self._choose_base_of_place(fitting)
        self.refresh()

    def _choose_base_of_place(self, pythons):
        """Choose the Python that the environment in the folder was made from, if there is one."""
        place = self.place()
        bases = [python.base for python in pythons] + [os.path.realpath(place.standalone)]
        made_from = os.path.realpath(place.base()) if place.base() else ""
        rows = [row for row, base in enumerate(bases) if is_inside(made_from, base)]
        if rows:  # of /usr and /usr/local it is the one further in
            self.baseCombo.setCurrentIndex(max(rows, key=lambda row: len(bases[row])))

    def _show_proxy_of_qgis(self):
        proxy = without_passwords(qgis_proxy())
        text = tr("of QGIS's settings: {proxy}").format(proxy=proxy) if proxy else ""
        self.proxyEdit.setPlaceholderText(text or tr("none, or the system's"))

    def _copy_wheels_command(self):
        plan = self.plan()
        versions = {python.path: python.version for python in self._pythons or ()}
        version = versions.get(plan.base_python, STANDALONE_VERSION)
        QgsApplication.clipboard().setText(wheels_command(plan, version))

    def _ask_for_removal(self):
        place = self.place()
        answer = QMessageBox.question(
            self,
            "GeoCFM",
            as_html(
                tr("Remove the engine's environment from {folder}?").format(folder=place.folder)
            ),
        )
        if answer == QMessageBox.StandardButton.Yes:
            self.removal_asked.emit(place)

    def _agree(self):
        plan = self.plan()
        settings.set_environment_folder(plan.folder)
        settings.set_package_index(plan.package_index)
        settings.set_wheels_folder(plan.wheels_folder)
        self.agreed.emit(plan)
