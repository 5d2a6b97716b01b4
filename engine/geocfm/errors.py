"""How a job ends when it does not finish: the user's mistake, or the user's wish."""


class UserError(Exception):
    """A mistake the user can mend: one sentence what is wrong, one how to mend it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class Cancelled(Exception):
    """The user asked to stop (Ctrl-C, SIGTERM); what was good so far has been kept."""
