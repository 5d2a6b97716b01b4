"""The memory and the room on disks that there is, and the sentences when it is not enough."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import torch

from geocfm.errors import UserError


def available_bytes(device: torch.device | None = None) -> int:
    """Memory that can be had now: a CUDA device's own, else the computer's or the container's."""
    if device is not None and device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = int(psutil.virtual_memory().available)
    try:
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    except OSError:  # not Linux
        return free
    return min([free, *_left_in_groups(groups, Path("/sys/fs/cgroup"))])


def _left_in_groups(groups: str, root: Path) -> Iterator[int]:
    """What the limits of containers and batch systems leave, in this group and all around it."""
    for line in groups.splitlines():
        _, kinds, place = line.split(":", 2)
        if not kinds:  # version 2
            top, names = root, ("memory.max", "memory.current", "")
        elif "memory" in kinds.split(","):
            top = root / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
        else:
            continue
        parts = [part for part in place.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):  # a container may see nothing but the top
            left = _left_in_group(top.joinpath(*parts[:depth]), *names)
            if left is not None:
                yield left


def _left_in_group(folder: Path, limit: str, usage: str, prefix: str) -> int | None:
    try:
        most, used = int((folder / limit).read_text()), int((folder / usage).read_text())
        lines = (folder / "memory.stat").read_text().splitlines()
    except (OSError, ValueError):  # no such group, or no limit: "max"
        return None
    stat = dict(line.split() for line in lines)
    files = sum(int(stat.get(f"{prefix}{age}_file", 0)) for age in ("active", "inactive"))
    return max(0, most - used + files)  # what was read from files is dropped when need be


def ensure_fits(needed: int, available: int, what: str, remedy: str) -> None:
    """Refuse what cannot fit into memory. what: as in "Training"."""
    if needed > available:
        raise UserError(
            f"{what} would need about {_amount(needed)} of memory; {_amount(available)} are free.",
            remedy,
        )


def ensure_room(folder: str | os.PathLike[str], needed: int, what: str) -> None:
    """Refuse what cannot fit on a folder's disk. what: as in "The map"."""
    place = Path(folder).absolute()
    there = next(part for part in (place, *place.parents) if part.exists())
    free = shutil.disk_usage(there).free
    if needed > free:
        raise UserError(
            f"{what} needs about {_amount(needed)} on the disk of {folder}; "
            f"{_amount(free)} are free.",
            "Free some space, or write to another disk.",
        )


def _amount(size: int) -> str:
    """Bytes for people, in powers of ten as disks count them."""
    unit, name = next(
        ((10**power, name) for power, name in ((12, "TB"), (9, "GB")) if size >= 10**power),
        (10**6, "MB"),
    )
    if size < 10**6:
        return f"{size / 1000:,.0f} kB"
    number = size / unit
    return f"{number:,.1f} {name}" if number < 10 and unit > 10**6 else f"{number:,.0f} {name}"
