"""A report as a browser would read it."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"img", "meta", "br", "col"}
FOREIGN = {"script", "link", "iframe", "object", "embed", "base"}


class Page(HTMLParser):
    """Reads a page; every element must end where it should."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}  # of each section
        self._section = "top"
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        if tag == "section":
            self._section = str(given["id"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        plain = data.replace("\u00a0", " ")
        self.texts[self._section] = self.texts.get(self._section, "") + " " + plain

    @property
    def sections(self) -> list[str]:
        return [str(given["id"]) for tag, given in self.tags if tag == "section"]

    def references(self) -> list[str]:
        names = ("src", "href", "srcset", "action", "data", "poster")
        return [str(given[name]) for _, given in self.tags for name in names if name in given]

    def foreign(self) -> list[str]:
        """What it would fetch from elsewhere, or run."""
        found = [one for one in self.references() if not one.startswith(("#", "data:image/"))]
        found += [tag for tag, _ in self.tags if tag in FOREIGN]
        return found + [name for _, given in self.tags for name in given if name.startswith("on")]

    def all_text(self) -> str:
        return " ".join(self.texts.values())
