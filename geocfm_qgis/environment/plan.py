"""What "Create one for me" will do, step by step, before any of it happens."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass

from ..bundle import constraints_file
from ..child_environment import IS_WINDOWS
from ..translation import tr
from .place import Place
from .requirements import engine_requirements, pinned

CPU, CUDA, ORDINARY = "cpu", "cuda", "ordinary"
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
TORCH_CUDA_INDEX = "https://download.pytorch.org/whl/cu128"
STANDALONE_VERSION = "3.12"
STANDALONE_PYTHON = "<standalone Python>"  # in commands: known only after uv has fetched it
STANDALONE_BYTES = 120e6
UNREACHABLE_SECONDS = 15

WINDOWS_PATH_LETTERS = 260
LONGEST_PATH_INSIDE = 200  # measured: a licence text of PyTorch


@dataclass(frozen=True)
class Size:
    """How much is downloaded, and how much then stays on the disk."""

    download_bytes: float
    installed_bytes: float


SIZES = {  # CPU measured on Linux with PyTorch 2.13; CUDA's libraries bring the rest
    CPU: Size(0.4e9, 1.7e9),
    CUDA: Size(3.0e9, 6.0e9),
    ORDINARY: Size(0.4e9, 1.2e9),
}


@dataclass(frozen=True)
class Step:
    """One command, what it does, and whether the rest can go on without it."""

    title: str
    command: tuple[str, ...]
    variables: dict
    if_failed: str = ""  # what is said when it fails and the next step can make up for it


@dataclass(frozen=True)
class Plan:
    """Where an environment is made, from which Python, with which packages from where."""

    folder: str
    base_python: str = ""  # empty: a standalone one, fetched by uv
    uv: str = ""  # the uv that is there; empty: fetched by `helper_python`
    helper_python: str = ""  # any Python with pip
    build: str = CPU
    package_index: str = ""
    wheels_folder: str = ""
    proxy: str = ""
    requirements: tuple[str, ...] = ()
    constraints: str = ""

    @property
    def place(self):
        """Give the folder as a Place."""
        return Place(self.folder)

    @property
    def size(self):
        """Give the sizes to be stated and asked for."""
        size = SIZES[self.build]
        if self.base_python:
            return size
        return Size(size.download_bytes + 40e6, size.installed_bytes + STANDALONE_BYTES)

    def problems(self):
        """Give a sentence for each thing that would keep the installation from working."""
        found = []
        if not self.base_python and not self.uv and not self.helper_python:
            found.append(
                tr(
                    "No Python was found that could fetch one. Install Python 3.12 from python.org "
                    "or with the software manager of your system, then search again."
                )
            )
        if not self.place.folder.is_absolute():
            found.append(tr("Give the folder with its full path."))
        free = self.place.free_bytes()
        needed = self.size.installed_bytes + self.size.download_bytes
        if free is not None and free < needed:
            found.append(
                tr(
                    "While it installs, {needed} are needed on the disk of the folder, and {free} "
                    "are free. Choose a folder on another disk or make room."
                ).format(needed=as_size(needed), free=as_size(free))
            )
        letters = len(str(self.place.folder)) + LONGEST_PATH_INSIDE
        if IS_WINDOWS and letters > WINDOWS_PATH_LETTERS:
            found.append(
                tr("The path of the folder is too long for Windows. Choose one like C:\\geocfm.")
            )
        if self.wheels_folder and not Place(self.wheels_folder).folder.is_dir():
            found.append(
                tr("The folder of wheels {folder} does not exist.").format(
                    folder=self.wheels_folder
                )
            )
        return found

    def steps(self, keep=False):
        """Give the steps; `keep` installs into the environment that is there."""
        steps = [] if keep else [*self._standalone_steps(), self._venv_step()]
        if not self.wheels_folder and self.torch_index():
            steps.append(self._torch_step())
        return [*steps, self._packages_step()]

    def torch_index(self):
        """Give PyTorch's own index where the ordinary one has another build than is wanted."""
        if self.build == CPU and sys.platform.startswith("linux"):
            return TORCH_CPU_INDEX  # the ordinary one brings CUDA's gigabytes
        if self.build == CUDA and IS_WINDOWS:
            return TORCH_CUDA_INDEX  # the ordinary one computes on the CPU
        return ""

    def _standalone_steps(self):
        if self.base_python:
            return []
        steps = []
        uv = self.uv
        if not uv:
            folder = self.place.uv / "program"
            uv = str(folder / "bin" / ("uv.exe" if IS_WINDOWS else "uv"))
            arguments = ["--target", str(folder), "--upgrade", "--no-deps", "uv"]
            steps.append(
                Step(
                    tr("Fetch uv, a small program that brings a Python of its own"),
                    (self.helper_python, *self._pip(*arguments)),
                    self._variables(),
                )
            )
        steps.append(
            Step(
                tr("Fetch a standalone Python {version}").format(version=STANDALONE_VERSION),
                (uv, "python", "install", STANDALONE_VERSION),
                {
                    "UV_PYTHON_INSTALL_DIR": str(self.place.standalone),
                    "UV_PYTHON_INSTALL_BIN": "0",  # no links to it in the user's folders,
                    "UV_PYTHON_INSTALL_REGISTRY": "0",  # nor in Windows's registry
                    "UV_CACHE_DIR": str(self.place.uv / "cache"),
                },
            )
        )
        return steps

    def _venv_step(self):
        return Step(
            tr("Make an empty environment"),
            (self.base_python or STANDALONE_PYTHON, "-m", "venv", "--clear", str(self.place.venv)),
            {},
        )

    def _torch_step(self):
        arguments = ["--no-deps", "--index-url", self.torch_index(), pinned("torch")]
        patience = ["--retries", "1", "--timeout", str(UNREACHABLE_SECONDS)]
        if self.build == CUDA:
            title = tr("Install PyTorch for NVIDIA graphics cards")
            said = tr(
                "PyTorch's own package index did not give it. The ordinary index is used; its "
                "PyTorch for Windows computes on the CPU only."
            )
        else:
            title = tr("Install PyTorch for the CPU")
            said = tr("PyTorch's own package index did not give it. The ordinary index is used.")
        command = (str(self.place.python), *self._pip(*patience, *arguments))
        return Step(title, command, self._variables(), if_failed=said)

    def _packages_step(self):
        requirements = self.requirements or engine_requirements()
        title = tr("Install the packages that the engine needs")
        command = (str(self.place.python), *self._pip(*requirements))
        return Step(title, command, self._variables())

    def _pip(self, *arguments):
        options = ["--no-cache-dir"]  # nothing is left outside of the folder
        options += ["--only-binary", ":all:"]  # building from source needs compilers
        options += ["--progress-bar", "off", "--no-warn-script-location"]
        if self.wheels_folder:  # whoever filled it has chosen the versions
            options += ["--no-index", "--find-links", self.wheels_folder]
        else:
            options += ["-c", self.constraints or str(constraints_file())]
        return ("-m", "pip", "install", *options, *arguments)

    def _variables(self):
        variables = {"PIP_USER": "0"}  # should a configuration file of pip's ask for it
        if self.package_index:
            variables["PIP_INDEX_URL"] = self.package_index  # its password is no one else's to see
        return variables


def builds():
    """Give the builds of PyTorch that there are for this computer, the suitable one first."""
    if sys.platform == "darwin":
        return (ORDINARY,)
    return (CUDA, CPU) if has_nvidia_driver() else (CPU,)


def has_nvidia_driver():
    """Tell whether a driver for NVIDIA's graphics cards is installed."""
    return shutil.which("nvidia-smi") is not None or os.path.exists("/proc/driver/nvidia")


def as_size(count):
    """Give a number of bytes in words."""
    if count >= 1e9:
        return tr("{number:.1f} GB").format(number=count / 1e9)
    return tr("{number:.0f} MB").format(number=count / 1e6)
