"""A part of the page under a heading."""

from __future__ import annotations

from dataclasses import dataclass

from geocfm.evaluation.report.markup import Html, element


@dataclass(frozen=True)
class Section:
    """A heading that the contents lead to, and what stands under it."""

    key: str  # of its anchor
    title: str
    content: Html

    def html(self) -> Html:
        """The section."""
        return element("section", element("h2", self.title), self.content, id=self.key)
