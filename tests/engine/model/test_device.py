"""Which processor is chosen, and what is said when it is not there."""

import pytest
import torch
from geocfm.errors import UserError
from geocfm.model.device import choose_device, describe_device

THERE = {
    "cuda": torch.cuda.is_available(),
    "mps": torch.backends.mps.is_built() and torch.backends.mps.is_available(),
    "cpu": True,
}


def test_auto_takes_the_fastest_there_is():
    best = next(kind for kind, there in THERE.items() if there)
    assert choose_device("auto").type == best


def test_the_cpu_is_always_there():
    device = choose_device("cpu")
    assert device == torch.device("cpu")
    assert f"{torch.get_num_threads()} threads" in describe_device(device)


@pytest.mark.parametrize("kind", [kind for kind, there in THERE.items() if not there])
def test_a_device_that_is_not_there(kind):
    with pytest.raises(UserError, match=f"no {kind.upper()} device.*--device auto"):
        choose_device(kind)


@pytest.mark.parametrize("name", ["gpu", "", "CPU", "meta", "xpu:0", "cpu:one", "cpu:"])
def test_a_device_that_does_not_exist(name):
    with pytest.raises(UserError, match=f"no device called '{name}'.*auto, cpu, cuda or mps"):
        choose_device(name)
