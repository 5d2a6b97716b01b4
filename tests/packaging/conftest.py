"""build.py and plugin_zip.py stand at the top of the repository, outside any package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
