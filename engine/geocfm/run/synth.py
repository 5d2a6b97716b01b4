"""A synthetic region as files: what a geologist would have, and the truth beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.transform import Affine

from geocfm.data.synthetic import (
    Posterior,
    SyntheticImage,
    SyntheticSettings,
    make_image,
    posterior_density,
)
from geocfm.data.synthetic_settings import REFERENCE_BODIES, REFERENCE_SIZE
from geocfm.errors import UserError
from geocfm.events import Reporter
from geocfm.geo.grid import Grid
from geocfm.geo.writing import Band, open_raster_for_blocks, write_cog, write_points
from geocfm.inference.regional_map import UNIT
from geocfm.job import SynthJob
from geocfm.results import results_of
from geocfm.run.provenance import TAG
from geocfm.run.workplace import Workplace

CELL_M = 100.0
CORNER_M = (500_000.0, 7_000_000.0)  # upper left, UTM zone 50 south: Western Australia
DEPOSITS_PER_BODY = 100
REDRAWS = 256  # of the latents, for the map of what can be known


@dataclass(frozen=True)
class _Raster:
    values: NDArray[np.float64]
    band: str
    unit: str
    meaning: str
    tags: dict[str, str] = field(default_factory=dict)


def run_synth(job: SynthJob, place: Workplace, reporter: Reporter) -> None:
    """Make the region and write its layers, its occurrences and its truth."""
    settings = SyntheticSettings(
        size=job.size, bodies=job.bodies, deposits=job.deposits or DEPOSITS_PER_BODY * job.bodies
    )
    _ensure_rings_show(settings)
    image = make_image(settings, job.seed)
    stage = reporter.stage("Redrawing the latents")
    posterior = posterior_density(image, REDRAWS, job.seed, stage)
    spread = _relative_error(image, posterior)
    cells = image.density.size
    rasters = [
        _Raster(image.magnetics, "magnetics", "standard deviations", "Total magnetic intensity."),
        _Raster(
            image.geochemistry, "geochemistry", "standard deviations", "A geochemical pathfinder."
        ),
        _Raster(
            image.density * cells, "intensity", UNIT, "The density that the occurrences come from."
        ),
        _Raster(
            posterior.density * cells,
            "bayes",
            UNIT,
            "What can be known of that density from bodies, clean fields and arcs: its mean over "
            f"{REDRAWS} redrawn latents.",
            {
                "GEOCFM_RELATIVE_STANDARD_ERROR": f"{spread:.4g}",
                "GEOCFM_NLL_STANDARD_ERROR": f"{posterior.nll_standard_error:.4g}",
            },
        ),
        _Raster(image.latent, "latent", "standard deviations", "The latent geochemical control."),
    ]
    x, y = CORNER_M
    grid = Grid(CRS.from_epsg(32750), Affine(CELL_M, 0, x, 0, -CELL_M, y), job.size, job.size)
    for raster in rasters:
        reporter.check_cancelled()
        _write(place, raster, grid)
    tag = {TAG: place.provenance.model_dump_json()}
    magnetics, geochemistry, occurrences, *truth = results_of(job)
    write_points(
        place.folder / occurrences.name,
        grid,
        image.points,
        {"deposit": np.arange(1, len(image.points) + 1)},
        layer="occurrences",
        description="Synthetic occurrences, drawn from the true density.",
        metadata=tag,
    )
    truth[0].parent.mkdir(exist_ok=True)
    for path in (*truth, occurrences, geochemistry, magnetics):  # the first result comes last
        place.deliver(path.name, path)
    reporter.note(
        f"{int(image.active.sum())} of {job.bodies} bodies are mineralised; "
        f"{len(image.points)} occurrences."
    )
    reporter.note(
        f"What can be known is a mean over {REDRAWS} redrawn latents: at the occurrences its "
        f"relative standard error is {100 * spread:.1f} % on average, and that of their mean log "
        f"density {posterior.nll_standard_error:.3f}."
    )
    for path, raster in zip((magnetics, geochemistry), rasters[:2], strict=True):
        reporter.wrote("layer", path, f"{raster.band}, to learn from")
    reporter.wrote("occurrences", occurrences, f"{len(image.points)} occurrences, to learn from")
    for path, raster in zip(truth, rasters[2:], strict=True):
        reporter.wrote("truth", path, raster.meaning)


def _ensure_rings_show(settings: SyntheticSettings) -> None:
    """Refuse bodies so small that their rings, where the occurrences lie, fall between cells."""
    width = 2 * settings.contact_depth  # of a ring, in units
    if width * settings.unit < 1:
        size, bodies = settings.size, settings.bodies
        most = math.floor(REFERENCE_BODIES * (width * size / REFERENCE_SIZE) ** 2)
        fewer = f" or at most {most} bodies" if most else ""
        raise UserError(
            f"On {size} x {size} cells the contacts of {bodies} bodies are thinner than a cell.",
            f"Choose at least {math.ceil(settings.side / width)} cells along a side{fewer}.",
        )


def _relative_error(image: SyntheticImage, posterior: Posterior) -> float:
    """Of the posterior density by Monte Carlo, on average over the occurrences."""
    columns, rows = np.floor(image.points).astype(int).T
    ratios = posterior.standard_error[rows, columns] / posterior.density[rows, columns]
    return float(ratios.mean())


def _write(place: Workplace, raster: _Raster, grid: Grid) -> None:
    path = place.folder / f"{raster.band}.tif"
    plain = place.folder / f"plain_{raster.band}.tif"
    with open_raster_for_blocks(plain, grid) as file:
        file.write(raster.values.astype(np.float32), 1)
    write_cog(
        plain,
        path,
        bands=[Band(1, raster.band, raster.unit)],
        tags={
            "GEOCFM_MEANING": raster.meaning,
            **raster.tags,
            TAG: place.provenance.model_dump_json(),
        },
    )
