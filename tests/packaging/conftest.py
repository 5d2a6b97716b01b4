"""build.py and building/ stand at the top of the repository, outside the engine."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
