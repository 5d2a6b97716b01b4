"""A model's card in plain sentences."""

from __future__ import annotations

import html
import os
from datetime import datetime

from qgis.core import QgsCoordinateReferenceSystem
from qgis.PyQt.QtCore import QDate, QLocale

from ..translation import tr

PLAIN_NAMES = ("model", "model.last", "model.unfinished")  # as our own runs call their models


def model_name(path):
    """Give what a model is called: by its file, or by its folder where that says more."""
    name = os.path.splitext(os.path.basename(path))[0]
    folder = os.path.basename(os.path.dirname(path))
    return folder if folder and name.casefold() in PLAIN_NAMES else name


def card_sentences(card):
    """Give what a geologist wants to know of a model, one sentence each."""
    found = (_occurrences(card), _grid(card), _quality(card))
    return [sentence for sentence in found if sentence]


def card_html(card):
    """Give the sentences as one paragraph for a label."""
    return "<br>".join(html.escape(sentence) for sentence in card_sentences(card))


def _occurrences(card):
    occurrences = card.get("occurrences", {})
    count = occurrences.get("counts", {}).get("used")
    if count is None:
        return ""
    where = "; ".join(occurrences.get("where", ()))
    texts = {
        "count": count,
        "source": occurrences.get("source", ""),
        "date": _date(card.get("created", "")),
        "where": where,
    }
    if where:
        return tr("Learned from {count} occurrences of {source} where {where}, on {date}.").format(
            **texts
        )
    return tr("Learned from {count} occurrences of {source}, on {date}.").format(**texts)


def _grid(card):
    grid = card.get("grid", {})
    if not grid.get("transform"):
        return ""
    crs = QgsCoordinateReferenceSystem.fromWkt(grid.get("crs", ""))
    return tr(
        "It works on {size} cells in {crs} and learned from windows of {window} cells."
    ).format(
        size=_cell_size(grid["transform"][0], crs),
        crs=crs.authid() or crs.description() or tr("an unknown CRS"),
        window=card.get("window_size", "?"),
    )


def _quality(card):
    loss = card.get("metrics", {}).get("validation_loss")
    if loss is None:
        return ""
    return tr(
        "Its validation loss is {loss} after {iterations} iterations: the lower the better, among "
        "models of the same data."
    ).format(loss=f"{loss:.3g}", iterations=card.get("iterations", "?"))


def _cell_size(size, crs):
    unit = tr("degree") if crs.isGeographic() else tr("m")
    return f"{abs(size):g} {unit}"


def _date(text):
    try:
        day = datetime.fromisoformat(text)
    except ValueError:
        return text
    return QLocale().toString(QDate(day.year, day.month, day.day), QLocale.FormatType.ShortFormat)
