"""The report's picture in pages: cut between its sections."""

from pathlib import Path

from PIL import Image, ImageDraw

from building import report_pictures

GROUND = (244, 244, 242)


def test_pages_end_between_sections(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(report_pictures, "PAGE", 300)
    whole = Image.new("RGB", (200, 1000), GROUND)
    for top, bottom in ((20, 120), (140, 240), (260, 700), (720, 800)):
        ImageDraw.Draw(whole).rectangle((20, top, 180, bottom - 1), fill="white", outline="grey")
    picture = tmp_path / "report.png"
    whole.save(picture)
    (tmp_path / "report_9.png").write_bytes(b"of an earlier report")
    paths = report_pictures.cut(picture, tmp_path)
    sizes = [Image.open(path).height for path in paths]
    # two sections together, a long one for itself, the last; ten pixels above and below
    assert sizes == [240 - 20 + 20, 700 - 260 + 20, 800 - 720 + 20]
    assert sorted(tmp_path.glob("report_*.png")) == paths
