"""The engine's pre-flight report as a page to read."""

from __future__ import annotations

from html import escape

from ..engine_client import DONE, Note, Warning
from ..translation import tr

PAGE = """<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font-family: sans-serif; max-width: 50em; margin: 2em auto; line-height: 1.4; }}
table {{ border-collapse: collapse; }}
td, th {{ border-bottom: 1px solid #ccc; padding: 0.2em 0.8em; text-align: left; }}
.verdict {{ padding: 0.6em 1em; background: {colour}; }}
</style></head>
<body><h1>{title}</h1>
<p class="verdict">{verdict}</p>
{content}
</body></html>
"""
GOOD, BAD = "#e3f1e3", "#f9e0dc"


def check_report(found, outcome, words):
    """Give the page for a report of kind "check" (may be empty) and its outcome.

    `words` gives a sentence of the engine's as it is said in QGIS.
    """
    parts = []
    problems = found.get("problems") or [] if outcome.status != DONE else []
    if not problems and outcome.status != DONE:
        problems = [text for text in (outcome.message, outcome.hint) if text]
    parts += _list(tr("What stands in the way"), map(words, problems))
    warnings = [event.text for event in outcome.events if isinstance(event, Warning)]
    parts += _list(tr("What to look at"), map(words, warnings))
    parts += _occurrences(found.get("occurrences") or {})
    notes = [event.text for event in outcome.events if isinstance(event, Note)]
    parts += _list(tr("What there is"), map(words, notes))
    possible = outcome.status == DONE
    return PAGE.format(
        title=escape(tr("GeoCFM: check of the data")),
        colour=GOOD if possible else BAD,
        verdict=escape(
            tr("Training is possible.") if possible else tr("Training is not possible like this.")
        ),
        content="\n".join(parts),
    )


def _list(title, sentences):
    items = "".join(f"<li>{escape(text)}</li>" for text in sentences)
    return [f"<h2>{escape(title)}</h2><ul>{items}</ul>"] if items else []


def _occurrences(counts):
    labels = {
        "read": tr("read"),
        "without_geometry": tr("without a location"),
        "filtered_out": tr("left out by the filter"),
        "outside": tr("outside the grid"),
        "duplicates": tr("left out, in a cell that already had one"),
        "on_no_data": tr("on cells without data"),
        "used": tr("used"),
    }
    rows = "".join(
        f"<tr><td>{escape(label)}</td><td>{escape(str(counts[key]))}</td></tr>"
        for key, label in labels.items()
        if key in counts
    )
    return [f"<h2>{escape(tr('Occurrences'))}</h2><table>{rows}</table>"] if rows else []
