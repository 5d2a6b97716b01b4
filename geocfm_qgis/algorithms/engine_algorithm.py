"""The base of all algorithms: parameters become a job, and the engine does it."""

from __future__ import annotations

import os
from dataclasses import replace

from qgis.core import (
    QgsProcessing,
    QgsProcessingAlgorithm,
    QgsProcessingException,
    QgsProcessingMultiStepFeedback,
    QgsProcessingOutputLayerDefinition,
)

from ..bundle import icon
from ..engine_client import BROKEN, CANCELLED, DONE, run_engine
from ..jobs import in_layer_names, run_arguments, write_job_file
from ..jobs.checkpoint_card import CheckpointError
from ..jobs.job_paths import input_paths, output_paths
from ..jobs.temporary import temporary_path
from ..plain_text import without_tags
from ..runs.run import UNFINISHED
from ..runs.run_progress import EXPORT_SHARE
from ..settings import engine_python
from ..translation import tr
from ..wording import JOB_FILE_NAME, in_qgis_words
from .event_feedback import EventFeedback
from .job_inputs import JobInputs

OUTPUT = "OUTPUT"
TAGS = ("prospectivity", "mineral", "exploration", "geology", "occurrences", "flow matching")


class EngineAlgorithm(QgsProcessingAlgorithm):
    """An algorithm declares its parameters and names; the job follows from them."""

    command = ""  # of the engine
    algorithm_id = ""
    output_suffixes = ()
    further_outputs = ()  # parameters of what it may write besides: a raster each

    def parameters(self):
        """Give the definitions of the parameters, made by functions of parameters.py."""
        raise NotImplementedError

    def title(self):
        """Give the name people see."""
        raise NotImplementedError

    def help_text(self):
        """Say what it does, in words of geologists."""
        raise NotImplementedError

    def results(self, outcome, job, context, feedback):
        """Give the algorithm's outputs after the engine has done the job."""
        return {OUTPUT: self._output}

    def output_path(self, parameters, context):
        """Give the file to write; QGIS chooses it if the user wants a temporary one."""
        return self.parameterAsFileOutput(parameters, OUTPUT, context)

    def engine_job(self, parameters, context, out="", name=""):
        """Give the job that these parameters mean."""
        chosen = {each: _chosen_output(parameters, each) for each in self.further_outputs}
        written = {each.lower(): path for each, path in chosen.items() if path}
        return JobInputs(self, parameters, context).job(out, name, written)

    def take_outputs(self, parameters, context):
        """Let QGIS choose the files to write, and tell the job.

        Not before the work begins: a task works with a context of its own, and the layers that
        are to be loaded are those noted there.
        """
        # QGIS knows the result by just this spelling of its path
        self._output = self.output_path(parameters, context)
        self.refuse_suffix(self._output)
        self._beside = {
            name: self.parameterAsOutputLayer(parameters, name, context)
            for name in self.further_outputs
        }
        paths = {"out": self._output, **{name.lower(): at for name, at in self._beside.items()}}
        written = {key: os.path.abspath(path) for key, path in paths.items() if path}
        self._job = replace(self._job, values={**self._job.values, **written})

    @staticmethod
    def engine():
        """Give the Python that runs the engine; that there is none is said with what to do."""
        if not engine_python():
            raise QgsProcessingException(
                tr(
                    "GeoCFM's engine is not set up yet. Choose a Python for it, or let one be "
                    "made, under Settings > Options > GeoCFM."
                )
            )
        return engine_python()

    # what follows is called by QGIS

    def createInstance(self):
        """Give a new one."""
        return type(self)()

    def name(self):
        """Give the id within the provider."""
        return self.algorithm_id

    def displayName(self):
        """Give the name people see."""
        return self.title()

    def shortHelpString(self):
        """Give the help beside the dialog."""
        return self.help_text()

    def icon(self):
        """Give GeoCFM's icon."""
        return icon()

    def tags(self):
        """Give words it is found by."""
        return [*TAGS, self.command]

    def initAlgorithm(self, configuration=None):
        """Declare the parameters."""
        for parameter in self.parameters():
            self.addParameter(parameter)

    def checkParameterValues(self, parameters, context):
        """Find what is wrong before the work begins; one sentence of it."""
        try:
            self.engine()
            self.check(parameters, context)
        except (QgsProcessingException, CheckpointError) as error:
            return False, without_tags(str(error))  # QGIS guesses whether it is HTML
        # QGIS's own check comes last: it says what is wrong, but not why
        return super().checkParameterValues(parameters, context)

    def check(self, parameters, context):
        """Raise a sentence on the first thing that is wrong."""
        inputs = JobInputs(self, parameters, context)
        out = _chosen_output(parameters)
        job = self.engine_job(parameters, context, out)
        if out:
            self.refuse_suffix(out)
            self.refuse_existing(out, job)
        for path in output_paths(job):
            _refuse_replacing_input(path, job)
        if inputs.applies_model():
            _refuse_missing_layers(inputs.missing_layers())

    def refuse_existing(self, out, job):
        """Raise a sentence if a result that is there must stay; most are replaced in QGIS."""

    def prepareAlgorithm(self, parameters, context, feedback):
        """Read all that belongs to QGIS's main thread."""
        self._python = self.engine()
        self._job = self.engine_job(parameters, context)
        return True

    def processAlgorithm(self, parameters, context, feedback):
        """Write what has to be written for the engine, and let it do the job."""
        self.take_outputs(parameters, context)
        outcome = run_jobs([self._job], self._python, feedback)
        self.refuse(outcome)
        return self.results(outcome, self._job, context, feedback)

    def refuse(self, outcome):
        """Raise the engine's sentence if the work is not done."""
        refuse_unfinished(outcome)

    def refuse_suffix(self, out):
        """Raise a sentence if the result's name does not tell its format."""
        if out and self.output_suffixes and not out.lower().endswith(self.output_suffixes):
            raise QgsProcessingException(
                tr("The name of the result must end in {suffixes}, not so: {path}").format(
                    suffixes=tr(" or ").join(self.output_suffixes), path=out
                )
            )


def _refuse_replacing_input(out, job):
    place = os.path.normcase(os.path.realpath(out))
    if place in (os.path.normcase(os.path.realpath(path)) for path in input_paths(job)):
        raise QgsProcessingException(
            tr("The result would replace its own input {path}. Choose another name.").format(
                path=out
            )
        )


def run_jobs(jobs, python, feedback):
    """Run exports and jobs to their end; give the Outcome."""
    exports = [export for job in jobs for export in job.exports]
    if exports:
        part = QgsProcessingMultiStepFeedback(round(len(exports) / EXPORT_SHARE), feedback)
    for number, export in enumerate(exports):
        part.setCurrentStep(number)
        export.run(part)
    if feedback.isCanceled():
        raise QgsProcessingException(tr("Stopped as asked; nothing had begun."))
    path = write_job_file(jobs, temporary_path(JOB_FILE_NAME))

    def words(sentence):
        return in_layer_names(in_qgis_words(sentence), jobs)

    outcome = run_engine(
        python,
        run_arguments(jobs, path),
        on_event=EventFeedback(feedback, words, len(exports)),
        is_cancelled=feedback.isCanceled,
    )
    return replace(outcome, message=words(outcome.message), hint=words(outcome.hint))


def refuse_unfinished(outcome):
    """Raise what the engine said if its work is not done."""
    if outcome.status == DONE:
        return
    sentences = [outcome.message, outcome.hint]
    if outcome.status == CANCELLED:
        sentences += [
            tr("The best model so far is {path}.").format(path=artifact.path)
            for artifact in outcome.artifacts
            if artifact.path.endswith(UNFINISHED)
        ]
    if outcome.status == BROKEN and outcome.log:
        sentences.append(tr("All details are in {path}.").format(path=outcome.log))
    said = "\n".join(sentence for sentence in sentences if sentence)
    raise QgsProcessingException(said or tr("Stopped as asked."))


def _refuse_missing_layers(missing):
    if missing:
        raise QgsProcessingException(
            tr(
                "The model needs layers that were not given: {names}. Add rasters of these names, "
                "or write under 'Bands and their names' which band is which."
            ).format(names=", ".join(missing))
        )


def _chosen_output(parameters, name=OUTPUT):
    """Give the path that the user chose for a result, or an empty text if none was."""
    value = parameters.get(name)
    if isinstance(value, QgsProcessingOutputLayerDefinition):
        value = value.sink.staticValue()
    is_path = isinstance(value, str) and value not in ("", QgsProcessing.TEMPORARY_OUTPUT)
    return value if is_path else ""
