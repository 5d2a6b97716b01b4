"""Which processor does the work, chosen at run time."""

from __future__ import annotations

import torch

from geocfm.errors import UserError


def choose_device(name: str) -> torch.device:
    """``auto`` takes CUDA, then Apple MPS, then the CPU; a named device must be there."""
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": _mps_available()}
    if name == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if available[kind]))
    kind, colon, number = name.partition(":")
    if kind not in available or (colon and not number.isdecimal()):
        raise UserError(f"There is no device called '{name}'.", "Choose auto, cpu, cuda or mps.")
    if not available[kind]:
        raise UserError(
            f"This computer offers no {kind.upper()} device to PyTorch.",
            "Use --device auto, or install the PyTorch build for that device.",
        )
    return torch.device(name)


def _mps_available() -> bool:
    return torch.backends.mps.is_built() and torch.backends.mps.is_available()


def describe_device(device: torch.device) -> str:
    """For people: the graphics card's name, or the number of CPU threads."""
    if device.type == "cuda":
        return f"CUDA ({torch.cuda.get_device_name(device)})"
    if device.type == "mps":
        return "Apple GPU (MPS)"
    return f"CPU ({torch.get_num_threads()} threads)"
