from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_data import TINY, SmallRegion, run_geocfm


def contents(folder: Path) -> dict[Path, bytes | None]:
    """Every file in a folder with what it holds, and every folder."""
    return {
        path.relative_to(folder): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture(scope="session")
def paper_model(small_region: SmallRegion, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model without a density head, as the paper's: mapped by draws of its windows.

    That takes as long as the solver's steps are many.
    """
    out = tmp_path_factory.mktemp("paper") / "model.safetensors"
    done = run_geocfm(
        *("train", *small_region.raster_options, "--occurrences", small_region.occurrences, *TINY),
        *("--preset", "paper-earthmri", "--iterations", 40, "--out", out),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture
def refused(geocfm: Callable[..., Any], tmp_path: Path) -> Callable[..., str]:
    """Run a command that ends as a user's mistake does, and leaves the test's folder as it was.

    Called with the command's arguments and the words that must be said. Gives all that was said.
    """

    def run(arguments: list[object], *words: str) -> str:
        before = contents(tmp_path)
        result = geocfm(*arguments)
        said = " ".join((result.output + (result.stderr or "")).split())
        assert result.exit_code == 2, said
        assert "Traceback" not in said
        for word in words:
            assert word in said, said
        assert contents(tmp_path) == before
        return said

    return run
