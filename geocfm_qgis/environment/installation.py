"""Makes, repairs and removes an environment. Nothing here knows of windows or tasks."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from ..child_environment import IS_WINDOWS, installer_environment
from ..translation import tr
from .base_python import ask
from .commands import Cancelled, run_command
from .failures import explain, is_known, without_passwords
from .lock import locked
from .place import FINISHED, HALF_MADE, OUTDATED, is_inside
from .plan import CUDA, STANDALONE_PYTHON
from .problem import EngineDoesNotStart, EnvironmentProblem

DONE, FAILED, CANCELLED = "done", "failed", "cancelled"
TELLING_LINES = 60  # the last of a failed command: where it says why
SIZE_SECONDS = 1.0


@dataclass(frozen=True)
class Stage:
    """Where an installation stands: the step, its last line, and how much it has downloaded."""

    number: int
    total: int
    title: str
    line: str = ""
    downloaded_bytes: int = 0


@dataclass(frozen=True)
class InstallOutcome:
    """How it ended; `handshake` is what the new engine said of itself."""

    status: str
    message: str = ""
    remedy: str = ""
    python: str = ""
    handshake: object = None


class Installation:
    """One run of a plan. `check(python, is_cancelled)` shakes hands with the engine or raises."""

    def __init__(self, plan, check, on_stage=None, on_log=None, is_cancelled=None):
        self.plan = plan
        self.place = plan.place
        self._check = check
        self._on_stage = on_stage or (lambda stage: None)
        self._on_log = on_log or (lambda line: None)
        self._is_cancelled = is_cancelled or (lambda: False)
        self._notes = []
        self._stage = Stage(0, 0, "")
        self._measured = 0.0

    def run(self):
        """Carry the plan out and give the outcome; a half-made environment is never finished."""
        try:
            with locked(self.place.folder):
                return self._run_locked()
        except EnvironmentProblem as problem:
            self._log(problem.message, problem.details)
            return InstallOutcome(FAILED, problem.message, problem.remedy)

    def _run_locked(self):
        before = self.place.state()
        keeps = self._can_go_on(before)
        self.place.claim(self.plan.build)
        try:
            self.place.unfinish()
            handshake = self._install(keeps)
            self.place.finish()
        except Cancelled:
            return self._cancelled(was_complete=before in (FINISHED, OUTDATED))
        except OSError as error:
            message, remedy = explain(str(error))
            raise EnvironmentProblem(message, remedy, str(error)) from error
        finally:
            self.place.clear_downloads()
        self._log(tr("The engine is ready."))
        self._note_missing_card(handshake)
        said = " ".join([tr("The engine is ready."), *self._notes])
        return InstallOutcome(DONE, said, python=str(self.place.python), handshake=handshake)

    def _can_go_on(self, state):
        """Tell whether packages can be added to the environment that is there."""
        if state not in (FINISHED, OUTDATED, HALF_MADE) or self.place.build() != self.plan.build:
            return False
        python = ask(str(self.place.python))
        if python is None or not python.has_pip:
            return False
        if not self.plan.base_python:
            return is_inside(python.base, os.path.realpath(self.place.standalone))
        wanted = ask(self.plan.base_python)
        return wanted is not None and (wanted.base, wanted.minor) == (python.base, python.minor)

    def _install(self, keeps):
        """Install and check; what was kept and does not work is made anew, once."""
        try:
            return self._carry_out(self.plan.steps(keep=keeps))
        except EngineDoesNotStart as problem:
            if not keeps:
                raise
            self._log(problem.message, tr("The environment is made anew."))
            return self._carry_out(self.plan.steps())

    def _carry_out(self, steps):
        total = len(steps) + 1
        for number, step in enumerate(steps, start=1):
            self._enter(Stage(number, total, step.title))
            self._carry_out_step(step)
        self._enter(Stage(total, total, tr("Start the engine and ask it for its devices")))
        if self._is_cancelled():
            raise Cancelled
        return self._checked()

    def _carry_out_step(self, step):
        command = [
            self._standalone() if part == STANDALONE_PYTHON else part for part in step.command
        ]
        self._log("$ " + " ".join(command))
        self.place.downloads.mkdir(exist_ok=True)
        temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(self.place.downloads))
        variables = installer_environment(proxy=self.plan.proxy)
        variables.update(temporary)
        variables.update(step.variables)
        said = []

        def hear(line):
            said.append(line)
            self._log(line)
            self._tell(line)

        try:
            code = run_command(
                *(command, variables, self.place.folder, hear, self._is_cancelled, self._tell)
            )
        except OSError as error:
            code = None
            hear(str(error))
        if code == 0:
            return
        if step.if_failed:
            self._log(step.if_failed)
            self._notes.append(step.if_failed)
            return
        raise EnvironmentProblem(*explain("\n".join(said[-TELLING_LINES:])))

    def _checked(self):
        try:
            return self._check(str(self.place.python), self._is_cancelled)
        except Exception as error:  # the handshake's own class of errors, or one of ours
            if self._is_cancelled():
                raise Cancelled from error
            details = "\n".join(
                str(part) for part in (error, getattr(error, "details", "")) if part
            )
            message = getattr(error, "message", "") or str(error)
            remedy = getattr(error, "hint", "")
            if is_known(details):
                message, remedy = explain(details)
            raise EngineDoesNotStart(message, remedy, details) from error

    def _note_missing_card(self, handshake):
        devices = [device.name for device in getattr(handshake, "devices", ())]
        if self.plan.build == CUDA and not any(name.startswith("cuda") for name in devices):
            said = tr(
                "It computes on the CPU only: PyTorch finds no NVIDIA graphics card that it can "
                "use. A newer driver may help."
            )
            self._log(said)
            self._notes.append(said)

    def _cancelled(self, was_complete):
        if was_complete:
            return InstallOutcome(
                CANCELLED,
                tr("The repair was cancelled; the environment is not complete."),
                tr("Repair or remove it."),
            )
        self._log(tr("Cancelled; the half-made environment is removed."))
        self.place.remove()
        return InstallOutcome(CANCELLED, tr("Cancelled. Nothing was left behind."))

    def _standalone(self):
        """Give the Python that uv has fetched."""
        name = "python.exe" if IS_WINDOWS else "bin/python3"
        found = sorted(self.place.standalone.glob(f"cpython-*/{name}"))
        if not found:
            raise EnvironmentProblem(
                tr("The standalone Python did not arrive."),
                tr("Install Python 3.12 from python.org, then search again."),
            )
        return str(found[-1])

    def _enter(self, stage):
        self._stage = stage
        self._log(f"[{stage.number}/{stage.total}] {stage.title}")
        self._on_stage(stage)

    def _tell(self, line=""):
        """Tell the last line, and now and then how much has arrived."""
        now = time.monotonic()
        if not line and now - self._measured < SIZE_SECONDS:
            return
        self._measured = now
        stage = self._stage
        line = without_passwords(line) or stage.line
        size = _size_of(self.place.downloads)
        self._stage = Stage(stage.number, stage.total, stage.title, line, size)
        self._on_stage(self._stage)

    def _log(self, *lines):
        for line in lines:
            if line:
                self._on_log(without_passwords(line))


def remove_environment(place):
    """Remove what the plugin made, unless another window is at work on it."""
    with locked(place.folder):
        place.remove()


def _size_of(folder):
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.lstat(os.path.join(parent, name)).st_size
            except OSError:  # moved to its place meanwhile
                continue
    return size
