from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from small_data import run_geocfm


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="the system does not report peak memory")
def test_the_memory_benchmark_measures_every_step(tmp_path: Path) -> None:
    options = {"size": 2000, "layers": 2, "iterations": 2, "mapped": 150, "out": tmp_path}
    given = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    (tmp_path / "model.safetensors").write_text("somebody's")
    done = run_geocfm("benchmark", "memory", *given)
    assert done.returncode == 0, done.stdout + done.stderr
    steps = json.loads((tmp_path / "memory.json").read_text())["steps"]
    assert len(steps) == 3
    assert all(0.05 < step["peak_gb"] < 4 for step in steps)
    assert steps[-1]["name"] == "map of 150 x 150 cells (map)"
    assert {path.name for path in tmp_path.iterdir()} == {"memory.json", "model.safetensors"}
    assert (tmp_path / "model.safetensors").read_text() == "somebody's"
