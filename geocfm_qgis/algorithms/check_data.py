"""Check data: what there is, what training would do, and what stands in its way."""

from qgis.core import (
    QgsProcessingException,
    QgsProcessingOutputBoolean,
    QgsProcessingOutputNumber,
)

from ..engine_client import DONE, FAILED, JobEnded, JobStarted
from ..jobs import in_layer_names
from ..translation import tr
from ..wording import in_qgis_words
from . import destinations
from .check_report import check_report
from .engine_algorithm import OUTPUT, EngineAlgorithm, refuse_unfinished
from .train_model import learning_parameters


class CheckData(EngineAlgorithm):
    """Rasters and known occurrences become a report."""

    command = "check"
    algorithm_id = "checkdata"
    output_suffixes = (".html", ".htm")

    def title(self):
        """Give the name people see."""
        return tr("Check data")

    def help_text(self):
        """Say what it does."""
        return tr(
            "<p>Reads every layer once and says what training would do: the grid, how each layer "
            "is brought onto it and how much of it the layer covers, how many occurrences are "
            "used, filtered out, outside or on no-data, and what makes training impossible.</p>"
            "<p>Writes nothing but the report.</p>"
        )

    def parameters(self):
        """Give the definitions of the parameters."""
        return [*learning_parameters(), destinations.report_output()]

    def initAlgorithm(self, configuration=None):
        """Declare the parameters and the figures."""
        super().initAlgorithm(configuration)
        self.addOutput(QgsProcessingOutputNumber("USED", tr("Occurrences used")))
        self.addOutput(QgsProcessingOutputBoolean("CAN_TRAIN", tr("Training is possible")))

    def take_outputs(self, parameters, context):
        """Let QGIS choose the file of the report, which is no result of the engine's."""
        self._report_path = self.output_path(parameters, context)
        self.refuse_suffix(self._report_path)

    def refuse(self, outcome):
        """Raise what is no answer to the question; that training is impossible is one."""
        has_begun = any(isinstance(event, (JobStarted, JobEnded)) for event in outcome.events)
        if outcome.status not in (DONE, FAILED) or not has_begun:
            refuse_unfinished(outcome)  # also if the engine could not even look at the data

    def results(self, outcome, job, context, feedback):
        """Give the report and what it comes to."""
        if outcome.status == FAILED:
            feedback.reportError("\n".join(filter(None, (outcome.message, outcome.hint))))
        found = (outcome.reports("check") or [{}])[-1]

        def words(sentence):
            return in_layer_names(in_qgis_words(sentence), [job])

        results = {
            "USED": found.get("occurrences", {}).get("used", 0),
            "CAN_TRAIN": outcome.status == DONE,
        }
        if self._report_path:
            try:
                with open(self._report_path, "w", encoding="utf-8") as file:
                    file.write(check_report(found, outcome, words))
            except OSError as error:
                raise QgsProcessingException(
                    tr("The report cannot be written to {path} ({reason}).").format(
                        path=self._report_path, reason=error.strerror
                    )
                ) from None
            results[OUTPUT] = self._report_path
        return results
