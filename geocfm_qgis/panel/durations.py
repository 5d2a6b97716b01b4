"""Spans of time as people say them."""

from ..translation import tr

MINUTE, HOUR = 60, 3600  # seconds


def duration_text(seconds):
    """Give a span in two units at most: 12 s, 2 min 31 s, 1 h 5 min."""
    seconds = max(0, round(seconds))
    if seconds < MINUTE:
        return tr("{seconds} s").format(seconds=seconds)
    if seconds < HOUR:
        return tr("{minutes} min {seconds} s").format(
            minutes=seconds // MINUTE, seconds=seconds % MINUTE
        )
    return tr("{hours} h {minutes} min").format(
        hours=seconds // HOUR, minutes=seconds % HOUR // MINUTE
    )
