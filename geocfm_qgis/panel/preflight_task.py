"""The engine's own look at the data of a run, in the background."""

from __future__ import annotations

from qgis.core import QgsProcessingException, QgsProcessingFeedback

from .. import engine_client as engine
from ..background import BackgroundTask
from ..jobs import in_layer_names, run_arguments, write_job_file
from ..jobs.temporary import temporary_path
from ..translation import tr
from ..wording import JOB_FILE_NAME, in_qgis_words

OTHER_WORK = "Unfinished work of another job"  # how the engine's sentence on it begins


class PreflightTask(BackgroundTask):
    """Asks the engine its questions until one is answered with a problem."""

    def __init__(self, python, questions, on_answer):
        super().__init__(tr("GeoCFM: looking at the data"), on_answer)
        self._python = python
        self._questions = questions
        self.problems, self.warnings, self.notes = [], [], []
        self.facts = None
        self.is_broken = False  # the check itself, which says nothing of the data
        self.has_begun = False  # so far the engine works
        self.meets_other_work = False  # what another run has left under the same name
        self.transcript = ""

    def work(self):
        """Ask; nothing of the project is touched."""
        try:
            for jobs, only_rehearse in self._questions:
                self._ask(jobs, only_rehearse)
                if self.problems or self.isCanceled():
                    break
        except QgsProcessingException as error:
            self.problems.append(str(error))
        except OSError as error:
            self.problems.append(
                tr("A temporary file cannot be written: {reason}").format(reason=error)
            )

    def _ask(self, jobs, only_rehearse):
        feedback = QgsProcessingFeedback(False)
        for job in jobs:
            for export in job.exports:
                if self.isCanceled():
                    return
                export.run(feedback)
        path = write_job_file(jobs, temporary_path(JOB_FILE_NAME))
        arguments = [*run_arguments(jobs, path), *(["--dry-run"] if only_rehearse else [])]
        outcome = engine.run_engine(self._python, arguments, is_cancelled=self.isCanceled)
        self.transcript = outcome.transcript
        self.has_begun = any(isinstance(event, engine.Started) for event in outcome.events)

        def in_words(sentence):
            return in_layer_names(in_qgis_words(sentence), jobs)

        for event in outcome.events:
            if isinstance(event, engine.Note):
                self.notes.append(in_words(event.text))
            elif isinstance(event, engine.Warning):
                self.warnings.append(in_words(event.text))
        self.facts = (outcome.reports("check") or [self.facts])[-1]
        if outcome.status == engine.BROKEN:
            self.is_broken = True
        if outcome.status in (engine.FAILED, engine.BROKEN):
            told = _told(outcome)
            self.meets_other_work = any(OTHER_WORK in sentence for sentence in told)
            said = told or [f"{outcome.message} {outcome.hint}".strip()]
            self.problems = [in_words(sentence) for sentence in said]
            if self.meets_other_work:
                self.problems.append(
                    tr(
                        "Or give this run another name in the Results step; the unfinished work "
                        "stays as it is."
                    )
                )


def _told(outcome):
    """Give all that the engine says is wrong, each with its remedy."""
    found = [text for report in outcome.reports("check") for text in report.get("problems", ())]
    for report in outcome.reports("batch"):
        for job in report.get("jobs", ()):
            if job.get("status") == "problem":
                found += job.get("message", "").splitlines()
    return [sentence for sentence in dict.fromkeys(found) if sentence]
