"""The command that fills a folder of wheels on a computer with a network, for one without."""

from __future__ import annotations

import platform
import re
import sys

from ..child_environment import IS_WINDOWS
from .requirements import engine_requirements, pinned_for

GLIBC_VERSIONS = (39, 34, 31, 28, 24, 17)  # 2.x, for which wheels for Linux are built
USUAL_GLIBC = 28


def wheels_command(plan, python_version):
    """Give the command; it asks for what fits this computer and a Python of that version."""
    minor = tuple(int(part) for part in python_version.split(".")[:2])
    parts = ["python -m pip download -d wheels --only-binary :all:"]
    parts.append("--python-version {}.{}".format(*minor))
    parts += [f"--platform {tag}" for tag in platform_tags()]
    if plan.torch_index():
        parts.append(f"--extra-index-url {plan.torch_index()}")
    pins = (pinned_for(each, minor) for each in plan.requirements or engine_requirements())
    parts += [pin if re.fullmatch(r"[\w.=+-]+", pin) else f'"{pin}"' for pin in pins if pin]
    return " ".join(parts)


def platform_tags():
    """Give the platforms of wheels that this computer takes, as pip names them."""
    machine = platform.machine().lower()
    if IS_WINDOWS:
        return ["win_arm64" if machine == "arm64" else "win_amd64"]
    if sys.platform == "darwin":
        major = int(platform.mac_ver()[0].split(".")[0])
        return [f"macosx_{major}_0_{machine}"]  # pip takes those for older systems as well
    found = re.match(r"2\.(\d+)", platform.libc_ver()[1])
    newest = int(found[1]) if found else USUAL_GLIBC
    versions = [version for version in GLIBC_VERSIONS if version <= newest]
    tags = [f"manylinux_2_{version}_{machine}" for version in versions]  # pip adds no older ones
    return [*tags, f"manylinux2014_{machine}", f"linux_{machine}"]
