"""Pictures of the sample's report for the docs: run in .venv, which has what cuts pictures.

The report is made by the real command with the shipped model, and shown by a real browser.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "resources" / "sample"
MODEL = ROOT / "resources" / "checkpoints" / "murchison_gold.safetensors"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, LONGEST, PAGE = (
    1100,
    9000,
    1500,
)  # pixels: of the window, of the report at most, of a picture
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
                *("--baselines", "rf,ipp", "--out", str(folder / "evaluation")),
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
    """The picture without its empty end, in pages; earlier pages are replaced."""
    for old in out.glob("report_*.png"):
        old.unlink()
    with Image.open(picture) as whole:
        image = whole.convert("RGB")
    ground = image.getpixel((2, image.height - 2))
    box = Image.eval(_difference(image, ground), lambda value: 255 if value > 4 else 0).getbbox()
    height = min(image.height, (box[3] if box else image.height) + 20)
    count = -(-height // PAGE)
    paths = []
    for number in range(count):
        top, bottom = height * number // count, height * (number + 1) // count
        paths.append(out / f"report_{number + 1}.png")
        page = image.crop((0, top, image.width, bottom))
        page.quantize(256).save(paths[-1], optimize=True)
        print(f"Wrote {paths[-1]}.")
    return paths


def _difference(image: Image.Image, colour: object) -> Image.Image:
    """How far each pixel is from a colour, in grey."""
    from PIL import ImageChops

    plain = Image.new("RGB", image.size, colour)  # type: ignore[arg-type]
    return ImageChops.difference(image, plain).convert("L")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
