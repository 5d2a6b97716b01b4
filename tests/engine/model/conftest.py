import pytest


@pytest.fixture(autouse=True)
def calm(one_thread: None) -> None:
    """Small tensors gain nothing from threads, and lose much when the machine is busy."""
