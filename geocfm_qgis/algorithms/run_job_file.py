"""Run job file: several jobs, as the panel, a text editor or a colleague wrote them."""

from __future__ import annotations

import os

from qgis.core import (
    QgsProcessingContext,
    QgsProcessingException,
    QgsProcessingOutputNumber,
)

from ..engine_client import CANCELLED, DONE, run_engine
from ..results import LayerPostProcessor, save_style_beside
from ..results.finished import finished_results
from ..translation import tr
from ..wording import in_qgis_words
from . import parameters as p
from .engine_algorithm import refuse_unfinished
from .event_feedback import EventFeedback
from .report_algorithm import ReportAlgorithm

SUFFIXES = (".toml", ".json")


class RunJobFile(ReportAlgorithm):
    """The jobs of a file are done in their order."""

    command = "run"
    algorithm_id = "runjobfile"

    def title(self):
        """Give the name people see."""
        return tr("Run job file")

    def help_text(self):
        """Say what it does."""
        return tr(
            "<p>Runs the jobs of a job file (.toml or .json) one after another, as 'geocfm run' "
            "does on a server. A job that fails does not stop the others; one that needs its "
            "result is left out. Jobs that were done before, from the same inputs, are not done "
            "again.</p>"
            "<p>Maps, targets and sampled points are loaded into the project.</p>"
        )

    def parameters(self):
        """Give the definitions of the parameters."""
        return [p.job_file(), p.overwrite(default=False)]

    def initAlgorithm(self, configuration=None):
        """Declare the parameters and the figures."""
        super().initAlgorithm(configuration)
        self.addOutput(QgsProcessingOutputNumber("DONE", tr("Jobs done")))
        self.addOutput(QgsProcessingOutputNumber("FAILED", tr("Jobs that did not finish")))

    def check(self, parameters, context):
        """Raise a sentence on the first thing that is wrong; the engine checks what is inside."""
        self._path(parameters, context)

    def output_path(self, parameters, context):
        """Give none: each job names its own."""
        return ""

    def engine_job(self, parameters, context, out="", name=""):
        """Refuse: a file is no single job."""
        raise QgsProcessingException(tr("A job file holds jobs; it is none by itself."))

    def prepareAlgorithm(self, parameters, context, feedback):
        """Read the parameters."""
        self._python = self.engine()
        self._arguments = ["run", self._path(parameters, context)]
        if self.parameterAsBool(parameters, "OVERWRITE", context):
            self._arguments.append("--overwrite")
        return True

    def processAlgorithm(self, parameters, context, feedback):
        """Let the engine run the file."""
        outcome = run_engine(
            self._python,
            self._arguments,
            on_event=EventFeedback(feedback),
            is_cancelled=feedback.isCanceled,
        )
        for result in finished_results(outcome):
            save_style_beside(result.path, result.kind)
            _load(result, context)
        for job in outcome.jobs:
            said = in_qgis_words(f"{job.message} {job.hint}".strip())
            if job.status != DONE:
                feedback.reportError(f"{job.name}: {said}")
        done = sum(job.status == DONE for job in outcome.jobs)
        # an exception would keep QGIS from loading what the other jobs have made
        if not done or outcome.status == CANCELLED:
            refuse_unfinished(outcome)
        return {"DONE": done, "FAILED": len(outcome.jobs) - done, **self.report(outcome)}

    def _path(self, parameters, context):
        path = os.path.abspath(self.parameterAsFile(parameters, "JOB_FILE", context))
        if not os.path.isfile(path) or not path.lower().endswith(SUFFIXES):
            raise QgsProcessingException(
                tr("There is no job file {path}. Choose a .toml or .json file.").format(path=path)
            )
        return path


def _load(result, context):
    if context.project() is None:
        return
    name = os.path.splitext(os.path.basename(result.path))[0]
    details = QgsProcessingContext.LayerDetails(name, context.project(), name)
    details.setPostProcessor(LayerPostProcessor.create(result.kind, result.path))
    context.addLayerToLoadOnCompletion(result.path, details)
