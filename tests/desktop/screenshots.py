"""Takes the pictures of the tutorial; `python3 build.py screenshots` runs it."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import desktop  # noqa: E402 (the repository must be on the path)
from PIL import Image  # noqa: E402

from building import qgis_desktop  # noqa: E402
from building.plugin_zip import build_plugin_zip  # noqa: E402

LONGEST_S = 3600
USER = "geologist"  # the folder whose path is seen in the pictures


def main() -> int:
    """Tell the tutorial in a real QGIS and put its pictures into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the pictures")
    parser.add_argument("--minutes", type=float, default=3.0, help="time for training (default: 3)")
    options = parser.parse_args()
    place = Path(tempfile.gettempdir()) / USER
    if place.exists():
        parser.error(f"{place} is in the way: it is shown in the pictures, and must be new")
    place.mkdir()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # tidies up, too
    try:
        return take(place, options.out, options.minutes)
    finally:
        shutil.rmtree(place)


def take(place: Path, out: Path, minutes: float) -> int:
    """Tell the tutorial with all that it shows in a place without a name of anybody's."""
    pictures = place / "pictures"
    pictures.mkdir()
    engine = place / "geocfm"
    engine.symlink_to(Path(sys.prefix), target_is_directory=True)
    python = engine / Path(sys.executable).relative_to(sys.prefix)
    folder = str(place / "murchison")
    with desktop.screen() as shown:
        told = desktop.tell(
            "tutorial",
            place / "home",
            shown,
            qgis_desktop.profile_settings(None, "en_US"),
            build_plugin_zip(ROOT, place)[0],
            {
                "pictures": str(pictures),
                "python": str(python),
                "folder": folder,
                "minutes": minutes,
            },
            within=LONGEST_S,
        )
    taken = sorted(pictures.glob("*.png"))
    out.mkdir(parents=True, exist_ok=True)
    for picture in taken:
        with Image.open(picture) as opened:
            opened.convert("RGB").save(out / picture.name, optimize=True)
    print(f"{len(taken)} pictures in {out}")
    wrong = [told.answer.get("failure", ""), *told.answer.get("errors", [])]
    if any(wrong) or told.exit_code != 0:
        print("\n".join([*wrong, told.output]), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
