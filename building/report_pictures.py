"""Pictures of the sample's report for the docs: run in .venv, which has what cuts pictures.

The report is made by the real command with the shipped model, and shown by a real browser.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path

from PIL import Image, ImageChops

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "resources" / "sample"
MODEL = ROOT / "resources" / "checkpoints" / "murchison_gold.safetensors"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, LONGEST = 1100, 14_000  # pixels: of the window, of the report at most
MARGIN = 10  # pixels of ground above and below a section
PAGE = 1300  # pixels of a picture that the next section would still be put into
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--hide-scrollbars",
)


def main(out: Path) -> int:
    """Make the report and cut its picture into pages in a folder."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"A browser is needed to show the report, one of: {', '.join(BROWSERS)}.")
        return 1
    with tempfile.TemporaryDirectory(prefix="geocfm-report-") as place:
        folder = Path(place)
        made = subprocess.call(
            [
                *(sys.executable, "-m", "geocfm", "evaluate", "--checkpoint", str(MODEL)),
                *("--raster", str(SAMPLE / "rasters" / "*.tif")),
                *("--occurrences", str(SAMPLE / "occurrences.gpkg")),
                *("--out", str(folder / "evaluation")),
            ]
        )
        if made != 0:
            return made
        picture = folder / "report.png"
        page = (folder / "evaluation" / "report.html").as_uri()
        window = f"--window-size={WIDTH},{LONGEST}"
        subprocess.run(
            [browser, *QUIET, f"--user-data-dir={place}", window, f"--screenshot={picture}", page],
            check=True,
            capture_output=True,
        )
        cut(picture, out)
    return 0


def cut(picture: Path, out: Path) -> list[Path]:
    """The picture in pages, cut between its sections; earlier pages are replaced."""
    for old in out.glob("report_*.png"):
        old.unlink()
    with Image.open(picture) as whole:
        image = whole.convert("RGB")
    ground = image.getpixel((2, image.height - 2))
    paths = []
    for number, (top, bottom) in enumerate(_pages(_filled_rows(image, ground))):
        paths.append(out / f"report_{number + 1}.png")
        page = image.crop((0, top, image.width, bottom))
        page.quantize(256).save(paths[-1], optimize=True)
        print(f"Wrote {paths[-1]}.")
    return paths


def _filled_rows(image: Image.Image, ground: object) -> list[bool]:
    """Of each row, whether it shows anything but the ground."""
    plain = Image.new("RGB", image.size, ground)  # type: ignore[arg-type]
    differs = ImageChops.difference(image, plain).convert("L").point(lambda away: 255 * (away > 4))
    means = differs.reduce((image.width, 1))
    return [mean > 0 for mean in means.tobytes()]  # a byte each


def _pages(filled: list[bool]) -> list[tuple[int, int]]:
    """First row and the one after the last of each page: cut between sections, never in one."""
    pages: list[tuple[int, int]] = []
    for is_section, found in groupby(range(len(filled)), key=filled.__getitem__):
        rows = list(found)
        start, end = rows[0], rows[-1] + 1
        if not is_section:
            continue
        if pages and end - pages[-1][0] <= PAGE:
            pages[-1] = (pages[-1][0], end)
        else:
            pages.append((start, end))
    return [(max(0, start - MARGIN), min(len(filled), end + MARGIN)) for start, end in pages]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
