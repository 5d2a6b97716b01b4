"""What the paper reports on its synthetic benchmark, as data; the tables show it beside ours."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A column of the tables."""

    key: str
    title: str
    lower_is_better: bool
    digits: int

    @property
    def heading(self) -> str:
        """The title with an arrow in the better direction."""
        return f"{self.title} {'↓' if self.lower_is_better else '↑'}"


METRICS = (
    Metric("cd", "CD [px]", lower_is_better=True, digits=2),
    Metric("sinkhorn", "Sink.", lower_is_better=True, digits=3),
    Metric("f5", "F@5", lower_is_better=False, digits=3),
    Metric("kde_nll", "KDE-NLL", lower_is_better=True, digits=3),
    Metric("top5", "Top-5 %", lower_is_better=False, digits=3),
    Metric("nll", "exact NLL", lower_is_better=True, digits=3),
    Metric("capture", "capture area", lower_is_better=False, digits=3),
)
METRIC = {metric.key: metric for metric in METRICS}

Reported = tuple[float, float]  # mean, and the paper's +-

_COLUMNS = ("cd", "sinkhorn", "f5", "kde_nll", "top5")
_SYNTHETIC: dict[str, tuple[Reported, ...]] = {
    "unet-seg": ((29.46, 2.18), (0.100, 0.006), (0.615, 0.022), (9.143, 0.089), (0.661, 0.031)),
    "gbdt-paper": ((32.13, 2.03), (0.103, 0.006), (0.546, 0.018), (9.288, 0.083), (0.630, 0.027)),
    "rf-paper": ((37.09, 2.17), (0.116, 0.006), (0.462, 0.018), (9.552, 0.054), (0.586, 0.025)),
    "poisson-lr": ((39.93, 2.16), (0.122, 0.006), (0.384, 0.016), (9.803, 0.042), (0.500, 0.028)),
    "ocsvm": ((45.56, 2.20), (0.134, 0.007), (0.246, 0.015), (10.557, 0.020), (0.236, 0.018)),
    "retrieval-kde": (
        (47.16, 2.86),
        (0.132, 0.007),
        (0.220, 0.016),
        (13.302, 0.440),
        (0.058, 0.011),
    ),
    "global-kde": ((41.16, 2.04), (0.121, 0.006), (0.255, 0.014), (10.583, 0.030), (0.058, 0.008)),
    "uniform": ((49.61, 2.28), (0.147, 0.007), (0.206, 0.015), (10.804, 0.006), (0.048, 0.006)),
    "geocfm": ((9.37, 0.62), (0.045, 0.003), (0.634, 0.012), (8.950, 0.110), (0.720, 0.020)),
}
SYNTHETIC: dict[str, dict[str, Reported]] = {
    key: dict(zip(_COLUMNS, row, strict=True)) for key, row in _SYNTHETIC.items()
}
"""Table 1: method, metric -> mean and standard error."""

GAP: dict[str, tuple[float, float]] = {
    "uniform": (49.30, 49.61),
    "global-kde": (37.12, 41.16),
    "poisson-lr": (38.75, 39.93),
    "rf-paper": (32.08, 37.09),
    "unet-seg": (26.11, 29.46),
    "geocfm": (8.81, 9.37),
}
"""Table "train-test gap": training CD, test CD."""

POSITIVES: dict[int, dict[str, Reported]] = {
    100: {"cd": (9.38, 0.09), "sinkhorn": (0.0447, 0.0006), "kde_nll": (8.96, 0.07),
          "f5": (0.633, 0.005)},
    75: {"cd": (9.62, 0.10), "sinkhorn": (0.0457, 0.0006), "kde_nll": (8.87, 0.06),
         "f5": (0.636, 0.005)},
    50: {"cd": (9.60, 0.14), "sinkhorn": (0.0460, 0.0010), "kde_nll": (9.01, 0.06),
         "f5": (0.627, 0.005)},
}  # fmt: skip
"""Table "positive subset": percent -> metric -> mean and standard deviation over seeds."""

UNET_PASS_MS = 13.92
UNET_PASS = {"cd": 29.46, "f5": 0.615}
STEPS: dict[tuple[str, int], dict[str, float]] = {
    ("euler", 5): {"ms": 19.79, "cd": 9.30, "f5": 0.580},
    ("euler", 10): {"ms": 21.98, "cd": 9.39, "f5": 0.610},
    ("euler", 50): {"ms": 38.47, "cd": 9.37, "f5": 0.634},
}
"""Table "runtime": milliseconds on the authors' machine, where a UNet-Seg pass takes 13.92.

Its row of UNet-Seg is ``UNET_PASS``.
"""

BUDGET: dict[int, tuple[float, float]] = {
    100: (11.79, 0.894),
    250: (10.96, 0.946),
    500: (10.79, 0.970),
    1000: (10.66, 0.982),
    2000: (10.56, 0.988),
}
"""Table "budget": KDE-NLL and stability by points of a draw."""
