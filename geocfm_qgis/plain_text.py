"""Names and sentences shown as they are, where Qt or QGIS would read them as HTML.

Layers, files, fields and models are called what others call them, `<img src=...>` too. Labels take
plain text (see bundle.load_form); what follows is for what cannot be told to.
"""

from __future__ import annotations

import html


def as_html(text):
    """Give a text for what takes HTML only, such as QGIS's message bar."""
    return html.escape(text).replace("\n", "<br>")


def as_tip(text):
    """Give a text for a tooltip, for which Qt guesses whether it is HTML."""
    return f"<qt>{as_html(text)}</qt>" if "<" in text or "&" in text else text


def without_tags(text):
    """Give a text for what is shown as HTML here and as text there: no part of it is a tag."""
    return text.replace("<", "‹")
