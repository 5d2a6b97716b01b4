"""The menu of named layer sets: load, save, delete."""

from qgis.PyQt.QtCore import pyqtSignal
from qgis.PyQt.QtWidgets import QInputDialog, QMenu

from ..translation import tr
from .layer_sets import saved_sets


class LayerSetMenu(QMenu):
    """Lists the sets anew whenever it opens."""

    wants_load = pyqtSignal(str)
    wants_save = pyqtSignal(str)
    wants_delete = pyqtSignal(str)

    def __init__(self, project, can_save, parent=None):
        super().__init__(parent)
        self._project = project
        self._can_save = can_save  # a function: whether anything is ticked
        self.aboutToShow.connect(self.fill)

    def fill(self):
        """Show the sets there are."""
        self.clear()
        names = list(saved_sets(self._project))
        for name in names:
            action = self.addAction(tr("Load '{name}'").format(name=_literal(name)))
            action.triggered.connect(lambda _checked, name=name: self.wants_load.emit(name))
        self.addSeparator()
        saving = self.addAction(tr("Save the ticked layers as a set…"))
        saving.setEnabled(self._can_save())
        saving.triggered.connect(self._ask_name)
        deleting = self.addMenu(tr("Delete a set"))
        deleting.setEnabled(bool(names))
        for name in names:
            action = deleting.addAction(_literal(name))
            action.triggered.connect(lambda _checked, name=name: self.wants_delete.emit(name))

    def _ask_name(self):
        name, accepted = QInputDialog.getItem(
            self.parentWidget(),
            tr("Save layer set"),
            tr("Name of the set; one that is there already is replaced:"),
            ["", *saved_sets(self._project)],
            0,
            True,
        )
        if accepted and name.strip():
            self.wants_save.emit(name.strip())


def _literal(name):
    return name.replace("&", "&&")  # a single one would underline a letter
