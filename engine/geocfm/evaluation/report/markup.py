"""HTML by construction: text is escaped wherever it comes from, unless it is HTML already."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape

VOID = ("img", "meta", "col", "br")  # elements that have no end


class Html(str):
    """Text that is HTML; all other text is escaped when it becomes part of it."""

    __slots__ = ()


def element(tag: str, *content: str, **attributes: str) -> Html:
    """An element; ``class_`` and the like stand for attributes that Python has other uses for.

    An attribute without a value is left out.
    """
    said = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value, quote=True)}"'
        for name, value in attributes.items()
        if value
    )
    inside = "".join(map(safe, content))
    return Html(f"<{tag}{said}>" if tag in VOID else f"<{tag}{said}>{inside}</{tag}>")


def safe(text: str) -> Html:
    """The text as HTML shows it."""
    return text if isinstance(text, Html) else Html(escape(text))


def joined(parts: Iterable[str], between: str = "\n") -> Html:
    """Parts one after the other."""
    return Html(safe(between).join(map(safe, parts)))


def prose(sentence: str) -> Html:
    """A sentence whose numbers stay with their units when a line ends."""
    return Html(re.sub(r"(?<=\d) (?=%|km|points|times|nats)", "\u00a0", safe(sentence)))


def paragraph(sentence: str, class_: str = "") -> Html:
    """A sentence, or a few."""
    return element("p", prose(sentence), class_=class_)


def paragraphs(sentences: Iterable[str]) -> Html:
    """Each as a paragraph."""
    return joined(map(paragraph, sentences))


def bullets(sentences: Iterable[str]) -> Html:
    """Each as a point of a list."""
    return element("ul", *(element("li", prose(sentence)) for sentence in sentences))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], class_: str = "") -> Html:
    """A table; the first cell of each row names it. Without a head it has none."""
    columns = [element("th", cell, scope="col") for cell in head]
    first = element("thead", element("tr", *columns)) if columns else Html("")
    body = joined(
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(element("td", cell) for cell in row[1:]),
        )
        for row in rows
    )
    shown = element("table", first, element("tbody", body), class_=class_)
    return element("div", shown, class_="scroll")


def picture(content: bytes, kind: str, alt: str) -> Html:
    """A picture inside the page. kind: as in "png" or "svg+xml"."""
    data = base64.b64encode(content).decode("ascii")
    return element("img", src=f"data:image/{kind};base64,{data}", alt=alt)


def figure(shown: Html, caption: str, class_: str = "") -> Html:
    """A picture with its caption."""
    return element("figure", shown, element("figcaption", prose(caption)), class_=class_)
