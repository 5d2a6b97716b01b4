"""What the tests of the engine's environment share: wheels and a Python made by hand, waiting."""

import atexit
import base64
import functools
import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from qgis.PyQt.QtCore import QCoreApplication

# the Python of this QGIS, not that of the virtual environment the tests run in
BASE_PYTHON = str(Path(sys.base_prefix, "bin", f"python3.{sys.version_info[1]}"))


@functools.cache
def quick_python():
    """Give a Python that makes environments in a moment, as copies of one that is really made."""
    folder = Path(tempfile.mkdtemp(prefix="geocfm-python-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    subprocess.run([BASE_PYTHON, "-m", "venv", folder / "venv"], check=True)
    program = folder / "python3"
    program.write_text(
        "#!/bin/sh\n"
        'if [ "$1 $2 $3" = "-m venv --clear" ]; then\n'
        f'    rm -rf "$4" && exec cp -a \'{folder}/venv\' "$4"\n'
        "fi\n"
        f"exec '{BASE_PYTHON}' \"$@\"\n"
    )
    program.chmod(0o755)
    return str(program)


def write_wheel(folder, name, version="1.0", needs=()):
    """Write a wheel with one module in it."""
    folder.mkdir(parents=True, exist_ok=True)
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {need}\n" for need in needs)
    files = {
        f"{module}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{path},sha256={digest.decode()},{len(text.encode())}\n"
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)


def wait_until(condition, seconds=60):
    """Let QGIS work until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        QCoreApplication.processEvents()
        time.sleep(0.02)


def let_work(seconds):
    """Let QGIS work for a moment."""
    deadline = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() > deadline, seconds + 10)
