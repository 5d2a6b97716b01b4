"""The area of interest that a model was trained in: what lies outside is no part of its region."""

from __future__ import annotations

from dataclasses import dataclass

from geocfm.errors import UserError
from geocfm.geo.area import Area, read_area
from geocfm.geo.grid import Grid
from geocfm.geo.occurrences import Occurrences
from geocfm.model.checkpoint import ModelCard


@dataclass(frozen=True)
class LearnedArea:
    """Where a model learned. area: None for all of its grid; doubt: why that is not sure."""

    area: Area | None = None
    doubt: str | None = None

    def keep(self, occurrences: Occurrences) -> Occurrences:
        """Those inside it; that none is left is an error."""
        if self.area is None:
            return occurrences
        inside = occurrences.inside(self.area)
        if not len(inside.points):
            raise UserError(
                f"No occurrence of '{occurrences.source}' lies in the area of interest that the "
                "model was trained in.",
                "Give occurrences of that area, such as those that it was trained with.",
            )
        return inside


def learned_area(card: ModelCard, grid: Grid) -> LearnedArea:
    """The area that the model's training was given, read from its file again."""
    path, layer = (trained_with(card, key) for key in ("aoi", "aoi_layer"))
    if not path:
        return LearnedArea()
    try:
        return LearnedArea(read_area(path, grid, layer))
    except UserError as error:
        return LearnedArea(
            doubt="The model was trained inside an area of interest that cannot be read any more, "
            f"so all of its grid is evaluated, also what lay outside. {error.message}"
        )


def trained_with(card: ModelCard, key: str) -> str | None:
    """A text of the training's job; a card may hold anything in its place."""
    job = card.provenance.get("job")
    value = job.get(key) if isinstance(job, dict) else None
    return value if isinstance(value, str) else None
