"""Work on the environment as a task of QGIS: in the background, to be watched and cancelled."""

from qgis.core import QgsTask
from qgis.PyQt.QtCore import QCoreApplication, pyqtSignal

from ..translation import tr
from .installation import CANCELLED, DONE, FAILED, Installation, InstallOutcome, remove_environment
from .problem import EnvironmentProblem

LONGEST_SHUTDOWN = 10  # seconds

_at_work = []  # QGIS loses a task's end when no one in Python holds the task


class EnvironmentTask(QgsTask):
    """Works on the environment in the background; its signals arrive in the main thread."""

    stage = pyqtSignal(object)  # Stage
    log_line = pyqtSignal(str)
    ended = pyqtSignal(object)  # InstallOutcome

    def __init__(self, title):
        super().__init__(title, QgsTask.Flag.CanCancel)
        self.log = []  # all lines so far, for a page that is opened later
        self.last_stage = None
        self.outcome = None
        _at_work.append(self)
        QCoreApplication.instance().aboutToQuit.connect(self.end_soon)

    def run(self):
        """Do the work (in the background)."""
        try:
            self.outcome = self.work()
        except Exception as error:  # an error of ours must still end the task with a word
            self._say(repr(error))
            self.outcome = InstallOutcome(
                FAILED,
                tr("Something went wrong that GeoCFM did not foresee: {error}").format(error=error),
                tr("The log below says more; copy it when you report this."),
            )
        return self.outcome.status == DONE

    def finished(self, _result):
        """Tell the outcome (in the main thread)."""
        _at_work.remove(self)
        if self.outcome is None:  # cancelled before it began
            self.outcome = InstallOutcome(CANCELLED, tr("Cancelled. Nothing was changed."))
        self.ended.emit(self.outcome)

    def work(self):
        """Do the work and give an InstallOutcome."""
        raise NotImplementedError

    def end_soon(self):
        """Cancel and wait a little: the plugin ends, or QGIS does."""
        if self.isActive():
            self.cancel()
            self.waitForFinished(LONGEST_SHUTDOWN * 1000)

    def _say(self, line):
        self.log.append(line)
        self.log_line.emit(line)

    def _enter(self, stage):
        self.last_stage = stage
        self.setProgress(100 * max(0, stage.number - 1) / max(1, stage.total))
        self.stage.emit(stage)


class InstallTask(EnvironmentTask):
    """Creates or repairs an environment by a plan."""

    def __init__(self, plan, check):
        super().__init__(tr("GeoCFM: installing the engine"))
        self.plan = plan
        self._installation = Installation(plan, check, self._enter, self._say, self.isCanceled)

    def work(self):
        """Carry out the plan."""
        return self._installation.run()


class RemovalTask(EnvironmentTask):
    """Removes an environment that the plugin made."""

    def __init__(self, place):
        super().__init__(tr("GeoCFM: removing the engine"))
        self._place = place

    def work(self):
        """Delete its files."""
        self._say(tr("Removing {folder}").format(folder=self._place.folder))
        try:
            remove_environment(self._place)
        except EnvironmentProblem as problem:
            self._say(problem.message)
            if problem.details:
                self._say(problem.details)
            return InstallOutcome(FAILED, problem.message, problem.remedy)
        return InstallOutcome(DONE, tr("The environment is removed."))


def task_at_work():
    """Give the task that works on the environment in this window, or None."""
    return _at_work[0] if _at_work else None


def shutdown():
    """End what is at work, for the end of the plugin."""
    for task in list(_at_work):
        task.end_soon()
