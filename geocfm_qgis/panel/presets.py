"""The engine's presets as the panel offers them."""

from __future__ import annotations

from dataclasses import dataclass

from ..translation import tr


@dataclass(frozen=True)
class Preset:
    """A choice of all settings together, with the minutes it is meant for (0: its own budget)."""

    key: str
    title: str
    sentence: str
    minutes: float


def all_presets():
    """Give the presets in the order they are offered."""
    return (
        Preset(
            "auto",
            tr("Automatic"),
            tr("Quick on a processor, full on a graphics card."),
            5.0,
        ),
        Preset(
            "quick",
            tr("Quick"),
            tr("A small model that is good after minutes, without a graphics card."),
            5.0,
        ),
        Preset(
            "full",
            tr("Full"),
            tr("A larger model for an hour on a graphics card."),
            60.0,
        ),
        Preset(
            "paper-synthetic",
            tr("Paper: synthetic"),
            tr("Every number as in the paper's synthetic experiments; takes very long."),
            0.0,
        ),
        Preset(
            "paper-earthmri",
            tr("Paper: Earth MRI"),
            tr("Every number as in the paper's Earth MRI experiments; takes very long."),
            0.0,
        ),
    )
