"""Why an environment cannot be made, kept or removed."""


class EnvironmentProblem(Exception):
    """A sentence what is wrong, one what to do, and details for the log."""

    def __init__(self, message, remedy="", details=""):
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.details = details


class EngineDoesNotStart(EnvironmentProblem):
    """All is installed, and the engine does not run in it."""
