"""The budget of a run, in iterations or in time, and the learning rate along it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from geocfm.model.settings import TrainingSettings


@dataclass(frozen=True)
class Budget:
    """Either bound may be absent; with both, the nearer end counts."""

    iterations: int | None
    seconds: float | None

    def spent(self, iteration: int, elapsed: float) -> float:
        """Share of the budget used up, in [0, 1]."""
        shares = [0.0]
        if self.iterations is not None:
            shares.append(iteration / self.iterations if self.iterations else 1.0)
        if self.seconds is not None:
            shares.append(elapsed / self.seconds)
        return min(max(shares), 1.0)


def learning_rate(spent: float, settings: TrainingSettings) -> float:
    """Linear warm-up, then a cosine down to ``final_rate`` of the peak.

    spent: of the budget, the step included whose rate it is.
    """
    if spent < settings.warm_up:
        return settings.learning_rate * (spent / settings.warm_up)
    along = (spent - settings.warm_up) / (1 - settings.warm_up)
    cosine = 0.5 * (1 + math.cos(math.pi * along))
    return settings.learning_rate * (settings.final_rate + (1 - settings.final_rate) * cosine)
