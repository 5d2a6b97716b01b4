"""How a run ended: a sentence, and buttons for what one wants to do then."""

from __future__ import annotations

import math
import os
from functools import partial

from qgis.core import Qgis, QgsProject
from qgis.PyQt.QtCore import QObject, pyqtSignal
from qgis.PyQt.QtWidgets import QApplication, QFileDialog, QPushButton

from .. import engine_client as engine
from ..diagnostics import diagnostics_text
from ..jobs import in_layer_names
from ..plain_text import as_html
from ..results import PROSPECTIVITY, ExportRefused, export_geotiff
from ..results.finished import finished_results, report_of
from ..results.opening import PICTURE, can_open, open_folder, open_picture, open_report
from ..runs import unfinished_model
from ..translation import tr
from . import theme
from .clear_layout import clear_layout
from .durations import duration_text
from .result_files import interrupted
from .showing import still_there, zoom_to

COLUMNS = 2
BEST_SHARE = 0.1  # of the area; what of the occurrences lies there is told


class RunEnd(QObject):
    """The sentence and the buttons of an ended run."""

    use_model = pyqtSignal(str)

    def __init__(self, layout, iface, parent):
        super().__init__(parent)
        self._layout = layout
        self._iface = iface
        self._project = QgsProject.instance()
        self._shown = ()  # ids of the layers that were added; the user may remove them
        self._project.layersRemoved.connect(self._on_removed)

    def clear(self):
        """Take the buttons away."""
        self._shown = ()
        clear_layout(self._layout)

    def icon(self, outcome):
        """Give the name of the icon for how it ended."""
        icons = {engine.DONE: theme.DONE, engine.CANCELLED: theme.STOPPED}
        return icons.get(outcome.status, theme.FAILURE)

    def sentence(self, run, outcome, layers, seconds):
        """Say how it ended, and what is there now."""
        if outcome.status == engine.DONE:
            said = tr("Finished in {time}.").format(time=duration_text(seconds))
        elif outcome.status == engine.CANCELLED:
            said = tr("Cancelled after {time}.").format(time=duration_text(seconds))
            if unfinished_model(run, outcome):
                said += " " + tr("The best model so far is kept, and can be used.")
            if interrupted(job.values.get("out", "") for job in run.jobs):
                said += " " + tr("Run it again, and it goes on from there.")
        else:
            said = in_layer_names(f"{outcome.message} {outcome.hint}".strip(), run.jobs)
        if layers and outcome.status == engine.DONE:
            said += " " + tr("The results are the topmost group of layers.")
        elif layers:
            said += " " + tr("What had finished is the topmost group of layers.")
        further = [_captured(outcome), *getattr(layers, "problems", ())]
        return " ".join([said, *(sentence for sentence in further if sentence)])

    def offer(self, run, outcome, layers):
        """Show the buttons that make sense now."""
        self.clear()
        if layers:
            self._shown = tuple(layer.id() for layer in layers)
            zoom = partial(zoom_to, self._iface, self._project, self._shown)
            self._add("zoomButton", tr("Zoom to result"), zoom)
        model, text = _model_to_use(run, outcome)
        if model and (outcome.status != engine.DONE or not layers):
            self._add("useModelButton", text, lambda: self.use_model.emit(model))
        if os.path.isdir(run.folder):
            self._add("openFolderButton", tr("Open folder"), lambda: open_folder(run.folder))
        maps = [each.path for each in finished_results(outcome) if each.kind == PROSPECTIVITY]
        if maps:
            text = tr("Export GeoTIFF…")
            self._add("exportButton", text, lambda: self._export(maps[0], run.name))
        report = report_of(outcome)
        pictures = [
            each.path
            for each in outcome.finished_artifacts
            if each.kind == "picture" and can_open(each.path, run.folder, PICTURE)
        ]
        if can_open(report, run.folder):
            text = tr("Open report")
            self._add("reportButton", text, lambda: open_report(report, run.folder))
        elif pictures:
            text = tr("Show evaluation")
            self._add("evaluationButton", text, lambda: open_picture(pictures[0], run.folder))
        if outcome.status == engine.BROKEN:
            text = tr("Copy diagnostics")
            self._add("diagnosticsButton", text, lambda: _copy(diagnostics_text(outcome)))

    def _add(self, name, text, action):
        button = QPushButton(text)
        button.setObjectName(name)
        button.clicked.connect(lambda: action())
        place = self._layout.count()
        self._layout.addWidget(button, place // COLUMNS, place % COLUMNS)

    def _on_removed(self):
        button = self.parent().findChild(QPushButton, "zoomButton")
        if button is not None and not still_there(self._project, self._shown):
            button.hide()

    def _export(self, source, name):
        """The file as it is: a Cloud Optimized GeoTIFF with its provenance."""
        proposed = os.path.join(os.path.expanduser("~"), f"{name}.tif")
        path, _ = QFileDialog.getSaveFileName(
            self._iface.mainWindow(), tr("Export the GeoTIFF"), proposed, "GeoTIFF (*.tif)"
        )
        if not path:
            return
        try:
            written = export_geotiff(source, path, overwrite=True)  # the file dialog has asked
        except ExportRefused as refused:
            text, level = str(refused), Qgis.MessageLevel.Warning
        else:
            text = tr("The GeoTIFF is at {path}.").format(path=written)
            level = Qgis.MessageLevel.Success
        self._iface.messageBar().pushMessage("GeoCFM", as_html(text), level)


def _model_to_use(run, outcome):
    """Give the model that a run has made, and the text of its button."""
    trained = [job.values["out"] for job in run.jobs if job.command == "train"]
    finished = {artifact.path for artifact in outcome.finished_artifacts}
    whole = next((path for path in trained if path in finished), "")
    if whole:
        return whole, tr("Use its model")
    return unfinished_model(run, outcome), tr("Use the model so far")


def _captured(outcome):
    """How well the model, or its method, did on tiles kept apart, if that was measured."""
    for content in outcome.reports("evaluation"):
        test = content.get("test", {})
        share = test.get("captured", {}).get(f"{BEST_SHARE:g}")
        if share is not None:
            return tr(
                "On tiles it never saw, the most prospective {area} % of the ground hold {share} % "
                "of {count} occurrences."
            ).format(**_figures(share, test["occurrences"]))
    # a model after a cross-validation has seen all tiles: the folds tell what is to be expected
    for content in outcome.reports("cross-validation"):
        rates = content.get("rates") or {}
        for at in rates.get("at", ()):
            if math.isclose(at["area_share"], BEST_SHARE):
                return tr(
                    "In the cross-validation, the most prospective {area} % of the ground hold "
                    "{share} % of {count} occurrences."
                ).format(**_figures(at["captured"]["value"], rates["occurrences"]))
    return ""


def _figures(share, count):
    return {"area": round(100 * BEST_SHARE), "share": round(100 * share), "count": count}


def _copy(text):
    QApplication.clipboard().setText(text)
