import json
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from geocfm.data.windows import plan_windows
from geocfm.errors import UserError
from geocfm.geo.grid import Grid
from geocfm.model.checkpoint import (
    GridCard,
    LayerCard,
    ModelCard,
    OccurrenceCard,
    SplitCard,
)
from geocfm.model.network import VelocityNetwork
from geocfm.model.settings import PRESETS, change_settings
from geocfm.run import needs, room
from rasterio.crs import CRS
from rasterio.transform import Affine

CPU = torch.device("cpu")
GB = 10**9


def grid_of(height, width, cell=100.0):
    return Grid(CRS.from_epsg(32750), Affine(cell, 0, 5e5, 0, -cell, 7e6), height, width)


def settings_of(preset="quick", **changes):
    return change_settings(
        PRESETS[preset], {key.replace("__", "."): str(value) for key, value in changes.items()}
    )


def card_of(settings, window, layers=3):
    grid = GridCard.model_validate(grid_of(1000, 1000).to_dict())
    return ModelCard(
        settings=settings,
        layers=tuple(LayerCard(name=f"layer {number}") for number in range(layers)),
        window_size=window,
        grid=grid,
        split=SplitCard(row_edges=(0, 1000), col_edges=(0, 1000), roles=(("train",),)),
        occurrences=OccurrenceCard(source="points.gpkg"),
        seed=0,
        iterations=1,
        created="",
        versions={},
    )


def spread_points(count, size):
    return np.random.default_rng(0).random((count, 2)) * size


@pytest.fixture
def memory(monkeypatch):
    """Set how much memory there is."""

    def there_is(size):
        monkeypatch.setattr(needs, "available_bytes", lambda device=None: int(size))

    return there_is


# Estimates against processes that were really measured.

MEASURED = """
import io, json, sys
import numpy as np, torch
from geocfm.data.patches import Batch
from geocfm.model.network import VelocityNetwork
from geocfm.model.settings import Settings
from geocfm.training.ema import AveragedNetwork
from geocfm.training.losses import flow_loss

def status(key):
    lines = open("/proc/self/status").read().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(key))

torch.set_num_threads(1)
kind, channels, window, batch, points, text = sys.argv[1:]
channels, window, batch, points = map(int, (channels, window, batch, points))
settings = Settings.model_validate_json(text)
before = status("VmRSS")
network = VelocityNetwork(channels, settings.network)
if kind == "training":
    images = torch.ones(batch, channels, window, window)
    average = AveragedNetwork(network, 0.9)
    optimiser = torch.optim.AdamW(network.parameters())
    for _ in range(2):
        some = Batch(
            images, torch.ones(batch, window, window, dtype=torch.bool), torch.rand(points, 2),
            torch.randn(points, 2), torch.rand(points), torch.arange(points) % batch,
            torch.ones(points), torch.zeros(batch),
        )
        optimiser.zero_grad(set_to_none=True)
        flow_loss(network, some).backward()
        optimiser.step()
        average.update(network)
else:  # as Predictor holds them: values, channels of each window, and all together
    values = [np.ones((channels, window, window), np.float32) for _ in range(batch)]
    read = [np.array(one) for one in values]
    images = torch.from_numpy(np.stack(read))
    with torch.no_grad():
        network.look(images) if kind == "looking" else network.encode(images)
print(status("VmHWM") - before)
"""


def measured_bytes(kind, channels, window, batch, points, settings):
    numbers = [str(number) for number in (channels, window, batch, points)]
    command = [sys.executable, "-c", MEASURED, kind, *numbers, settings.model_dump_json()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
@pytest.mark.parametrize(
    ("kind", "preset", "window", "batch"),
    [
        ("training", "quick", 64, 32),
        ("training", "full", 32, 8),
        ("mapping", "paper-earthmri", 96, 32),
        ("looking", "quick", 1400, 1),
        ("looking", "full", 700, 1),
    ],
)
def test_estimates_agree_with_measured_peaks(kind, preset, window, batch):
    settings = settings_of(preset, training__batch=batch)
    if settings.network.start is None:
        settings = settings_of(preset, training__batch=batch, network__start="process")
    points = settings.training.points_per_step
    measured = measured_bytes(kind, 6, window, batch, points, settings)
    if kind == "training":
        estimate = needs.training_bytes(settings, 6, window, points)
    elif kind == "looking":
        estimate = needs.looking_bytes(settings, 6, window)
    else:
        estimate = needs.windows_bytes(settings, 6, window, batch)
    assert 0.7 < estimate / measured < 1.6


# Estimates by themselves.


@pytest.mark.parametrize("preset", PRESETS)
def test_weights_are_counted_as_the_network_has_them(preset):
    settings = PRESETS[preset].network
    real = VelocityNetwork(5, settings)
    assert needs._weights(settings, 5) == sum(weight.numel() for weight in real.parameters())


def test_a_window_twice_as_wide_takes_nearly_four_times_the_memory():
    settings = settings_of("paper-earthmri")
    small, large = (needs.training_bytes(settings, 3, size, 1000) for size in (1024, 2048))
    assert 3.8 < large / small < 4.0
    assert large > 50 * GB


def test_points_in_a_step_are_what_windows_hold_or_what_is_asked_for():
    column, row = np.mgrid[0:640:8, 0:640:8]
    points = np.stack([column.ravel(), row.ravel()], axis=1) + 0.5  # 64 in a window of 64
    few = settings_of(training__batch=8, training__points_per_step=0)
    inner = 8 * 64
    assert 0.8 * inner < needs.points_in_a_step(points, 64, few) <= inner
    many = settings_of(training__batch=8, training__points_per_step=4096)
    assert 0.8 * 4096 < needs.points_in_a_step(points, 64, many) <= 4096
    assert needs.points_in_a_step(points[:0], 64, many) == 4096


def test_a_region_grows_with_its_lattice_and_keeps_small_stacks():
    plan = plan_windows(grid_of(1000, 1000), 1000, settings_of().windows)
    kept = needs.region_bytes(grid_of(4000, 4000), 8, plan)
    streamed = needs.region_bytes(grid_of(5000, 5000), 8, plan)
    assert 512_000_000 < kept < 1.1 * GB
    assert streamed < kept
    assert needs.region_bytes(grid_of(500_000, 500_000), 8, plan) > 100 * GB


def test_a_look_twice_as_wide_takes_nearly_four_times_the_memory():
    small, large = (needs.looking_bytes(settings_of(), 6, side) for side in (2000, 4000))
    assert 3.5 < large / small < 4.0


def test_points_and_windows_that_are_drawn_from_both_count():
    settings = settings_of("paper-earthmri")
    few, many = (needs.drawing_bytes(settings, 6, 96, wanted) for wanted in (10**5, 10**6))
    assert many > 5 * few
    assert needs.drawing_bytes(settings, 6, 384, 1) > 10 * needs.drawing_bytes(settings, 6, 96, 1)


# What there is.


def test_memory_is_found():
    assert 10**7 < room.available_bytes() < 10**14
    assert room.available_bytes(CPU) < 10**14


def test_a_cuda_device_has_its_own_memory(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (6 * GB, 8 * GB))
    cuda = torch.device("cuda")
    assert room.available_bytes(cuda) == 6 * GB
    assert needs.Needs(arrays=10**6, network=7 * GB).tightest(cuda) == (7 * GB, 6 * GB)
    assert needs.Needs(arrays=10**18, network=7 * GB).tightest(cuda)[0] == 10**18


def write_group(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


def test_limits_of_containers_count_whatever_group_has_them(tmp_path):
    stat = "anon 5\nactive_file 30\ninactive_file 70"
    job = tmp_path / "system.slice" / "job_7"
    write_group(job, memory__max=1000, memory__current=600, memory__stat=stat)
    write_group(job / "task", memory__max="max", memory__current=500, memory__stat=stat)
    groups = "0::/system.slice/job_7/task\n"
    assert list(room._left_in_groups(groups, tmp_path)) == [500]


def test_limits_of_older_containers_count_too(tmp_path):
    stat = "cache 9\ntotal_active_file 0\ntotal_inactive_file 200"
    top = {"memory__usage_in_bytes": 900, "memory__stat": stat}
    write_group(tmp_path / "memory", memory__limit_in_bytes=800, **top)
    groups = "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n0::/\n"  # /docker/abc is not seen inside
    assert list(room._left_in_groups(groups, tmp_path)) == [100]


def test_a_group_that_is_full_leaves_nothing(tmp_path):
    write_group(tmp_path, memory__max=10, memory__current=50, memory__stat="anon 50")
    assert list(room._left_in_groups("0::/\n", tmp_path)) == [0]


# Sentences.


def refusal(function, *arguments):
    with pytest.raises(UserError) as caught:
        function(*arguments)
    return caught.value


def test_what_fits_is_not_spoken_of():
    room.ensure_fits(10, 10, "Training", "Use less.")


def test_what_does_not_fit_is_said_in_gigabytes():
    error = refusal(room.ensure_fits, 96 * GB, 18 * GB, "Training", "Use --window 512.")
    assert error.message == "Training would need about 96 GB of memory; 18 GB are free."
    assert error.hint == "Use --window 512."


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 kB"), (250_000, "250 kB"), (640_000_000, "640 MB"), (1_440_000_000, "1.4 GB"),
     (3 * 10**12, "3.0 TB"), (12_345_678 * 10**9, "12,346 TB")],
)  # fmt: skip
def test_amounts_are_readable(size, text):
    assert room._amount(size) == text


def test_a_disk_without_room_is_named(monkeypatch, tmp_path):
    asked = []

    def usage(folder):
        asked.append(folder)
        return SimpleNamespace(free=3 * GB)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    folder = tmp_path / "not" / "yet"
    room.ensure_room(folder, 2 * GB, "The map")
    error = refusal(room.ensure_room, folder, needs.map_disk_bytes(900_000_000), "The map")
    assert error.message == (f"The map needs about 12 GB on the disk of {folder}; 3.0 GB are free.")
    assert set(asked) == {tmp_path}


def test_a_grid_of_a_million_million_cells_is_refused_whatever_the_memory(memory):
    memory(10**18)
    grid = grid_of(1_000_000, 1_000_000, cell=0.01)
    error = refusal(
        needs.ensure_learning_fits, grid, 3, spread_points(10, 1000), settings_of(), CPU
    )
    assert "1,000,000,000,000 cells" in error.message
    assert error.hint == "Use --resolution 0.08 or a smaller --extent."


def test_a_grid_of_one_cell_fits(memory):
    memory(1 * GB)
    needs.ensure_learning_fits(grid_of(1, 1), 3, spread_points(1, 1), settings_of(), CPU)


def test_a_grid_whose_windows_cannot_be_listed_is_refused_before_it_is_read(memory):
    memory(2 * GB)
    points = spread_points(300, 100_000)
    large = grid_of(100_000, 100_000, cell=5.0)
    sparse = settings_of(windows__size=64, windows__stride=1)
    error = refusal(needs.ensure_learning_fits, large, 3, points, sparse, CPU)
    assert error.message.startswith("Looking at the layers would need about 9")
    assert error.hint == "Use --resolution 160 or --set windows.stride=32."
    needs.ensure_learning_fits(
        large, 3, points, settings_of(windows__size=64, windows__stride=32), CPU
    )


def test_training_that_cannot_fit_names_values_that_would(memory):
    memory(24 * GB)
    grid, points = grid_of(20_000, 20_000), spread_points(3000, 20_000)
    large = settings_of("paper-earthmri", windows__size=2048, windows__stride="none",
                        windows__tile="none")  # fmt: skip
    error = refusal(needs.ensure_learning_fits, grid, 3, points, large, CPU)
    assert error.message.startswith("Training would need about ")
    assert error.message.endswith(" GB of memory; 24 GB are free.")
    assert error.hint == "Use --window 512."
    smaller = settings_of("paper-earthmri", windows__size=512, windows__stride="none",
                          windows__tile="none")  # fmt: skip
    needs.ensure_learning_fits(grid, 3, points, smaller, CPU)


def test_a_large_batch_is_halved_until_it_fits(memory):
    memory(2.5 * GB)
    grid, points = grid_of(2000, 2000), spread_points(3000, 2000)
    settings = settings_of(training__batch=512, windows__size=128)
    error = refusal(needs.ensure_learning_fits, grid, 3, points, settings, CPU)
    assert error.hint == "Use --window 64 or --set training.batch=256."


def test_points_that_are_asked_for_are_halved_where_they_are_too_many(memory):
    memory(8 * GB)
    grid, points = grid_of(2000, 2000), spread_points(3000, 2000)
    settings = settings_of(training__points_per_step=100_000_000)
    error = refusal(needs.ensure_learning_fits, grid, 3, points, settings, CPU)
    assert error.hint == "Use --set training.points_per_step=781250."


def test_both_levers_are_named_where_neither_is_enough(memory):
    memory(0.7 * GB)
    grid, points = grid_of(2000, 2000), spread_points(3000, 2000)
    settings = settings_of(training__batch=4096, windows__size=1024)
    error = refusal(needs.ensure_learning_fits, grid, 3, points, settings, CPU)
    assert error.hint == "Use --window 256 with --set training.batch=1."


def test_a_network_too_large_for_any_window_is_said(memory):
    memory(1 * GB)
    grid, points = grid_of(2000, 2000), spread_points(3000, 2000)
    settings = settings_of(network__width=8192)
    error = refusal(needs.ensure_learning_fits, grid, 3, points, settings, CPU)
    assert error.hint == "Use a smaller network (--preset quick)."


def test_a_map_with_windows_too_large_asks_for_another_model(memory):
    memory(18 * GB)
    card = card_of(settings_of("paper-earthmri"), window=2048)
    error = refusal(needs.ensure_mapping_fits, card, grid_of(20_000, 20_000), CPU)
    assert error.message.startswith("The map would need about ")
    assert error.hint == "Use a model trained with --window 512."
    needs.ensure_mapping_fits(card_of(settings_of(), window=128), grid_of(20_000, 20_000), CPU)


def test_tiles_shrink_with_the_memory_and_the_map_goes_on(memory):
    card, grid = card_of(settings_of(), window=128), grid_of(20_000, 20_000)
    sides = []
    for free in (64, 8, 4, 2, 1, 0.6):
        memory(free * GB)
        sides.append(needs.ensure_mapping_fits(card, grid, CPU))
    assert sides == sorted(sides, reverse=True)
    assert sides[0] == needs.LARGEST_TILE
    assert sides[0] > sides[4] > sides[5] >= needs.SMALLEST_TILE


@pytest.mark.parametrize("free", [0.6, 1, 2, 4])
@pytest.mark.parametrize("preset", ["quick", "full"])
def test_a_tile_with_its_margin_leaves_memory_to_others(memory, preset, free):
    memory(free * GB)
    settings = settings_of(preset)
    card, grid = card_of(settings, window=128), grid_of(3000, 3000)
    side = needs.ensure_mapping_fits(card, grid, CPU)
    assert needs.SMALLEST_TILE <= side <= needs.LARGEST_TILE
    seen = needs.looking_bytes(settings, card.channels, side + 2 * settings.network.reach)
    assert seen < free * GB
    assert side == needs.SMALLEST_TILE or seen < free * GB * needs.TILE_SHARE


def test_members_of_an_ensemble_are_held_side_by_side(memory):
    memory(3 * GB)
    card, grid = card_of(settings_of(), window=128), grid_of(30_000, 30_000)
    one, many = (needs.ensure_mapping_fits(card, grid, CPU, maps) for maps in (1, 10))
    assert many < one


def test_a_map_for_which_no_tile_is_small_enough_is_refused(memory):
    memory(0.1 * GB)
    card = card_of(settings_of(), window=128)
    error = refusal(needs.ensure_mapping_fits, card, grid_of(2000, 2000), CPU)
    assert error.message.startswith("The map would need about ")
    assert error.message.endswith(" of memory; 100 MB are free.")
    assert error.hint == "Give layers that cover a smaller region."


@pytest.mark.parametrize("preset", ["quick", "paper-earthmri"])
def test_a_map_over_too_wide_a_grid_asks_for_a_smaller_region(memory, preset):
    memory(2 * GB)
    card = card_of(settings_of(preset), window=128)
    error = refusal(needs.ensure_mapping_fits, card, grid_of(1000, 30_000_000), CPU)
    assert error.hint == "Give layers that cover a smaller region."


def test_a_model_of_windows_is_mapped_in_its_own_windows(memory):
    memory(8 * GB)
    card = card_of(settings_of("paper-earthmri"), window=96)
    assert needs.ensure_mapping_fits(card, grid_of(2000, 2000), CPU) == 96


def test_a_map_of_too_many_cells_is_refused_whatever_the_memory(memory):
    memory(10**18)
    card = card_of(settings_of(), window=128)
    error = refusal(needs.ensure_mapping_fits, card, grid_of(10**6, 10**6), CPU)
    assert "1,000,000,000,000 cells" in error.message


@pytest.mark.parametrize("preset", ["quick", "paper-earthmri"])
def test_too_many_draws_are_refused_with_numbers_that_fit(memory, preset):
    memory(8 * GB)
    card, grid = card_of(settings_of(preset), window=96), grid_of(2000, 2000)
    error = refusal(needs.ensure_drawing_fits, card, grid, 1_000_000, 10_000, CPU)
    assert error.message.startswith("Drawing 10,000,000,000 points would need about ")
    fitting = dict(
        zip(["draws", "points"], [part.split()[-1] for part in error.hint[:-1].split(" or ")],
            strict=False)
    )  # fmt: skip
    needs.ensure_drawing_fits(card, grid, 1_000_000, int(fitting["draws"]), CPU)
    needs.ensure_drawing_fits(card, grid, int(fitting["points"]), 10_000, CPU)
    needs.ensure_drawing_fits(card, grid, 500, 4, CPU)


@pytest.mark.parametrize(
    ("preset", "free"), [("quick", 0.6), ("quick", 1), ("quick", 4), ("full", 1), ("full", 4)]
)
def test_few_draws_fit_where_they_fit_with_the_smallest_tile(memory, preset, free):
    """The tile is as large as leaves room for windows that reach beyond it, not as the map's."""
    memory(free * GB)
    card, grid = card_of(settings_of(preset), window=128), grid_of(3000, 3000)
    side = needs.ensure_drawing_fits(card, grid, 500, 1, CPU)
    assert side <= needs.ensure_mapping_fits(card, grid, CPU)


def test_baselines_on_too_large_a_region_are_refused(memory):
    memory(2 * GB)
    card, points = card_of(settings_of(), window=64), spread_points(300, 100_000)
    error = refusal(needs.ensure_baselines_fit, card, grid_of(400_000, 400_000), points, False, CPU)
    assert error.message.startswith("Looking at the layers would need about ")
    assert error.hint.startswith("Leave out --baselines")
    needs.ensure_baselines_fit(card, grid_of(2000, 2000), points, False, CPU)


def test_a_region_too_large_to_look_at_is_refused_with_the_remedy_given(memory):
    memory(2 * GB)
    card, points = card_of(settings_of(), window=64), spread_points(300, 100_000)
    error = refusal(needs.ensure_region_fits, card, grid_of(400_000, 400_000), points, "Skip it.")
    assert error.message.startswith("Looking at the layers would need about ")
    assert error.hint == "Skip it."
    needs.ensure_region_fits(card, grid_of(12_000, 12_000), points, "Skip it.")


def test_only_baselines_that_are_networks_need_the_memory_of_training(memory):
    memory(4 * GB)
    settings = settings_of("paper-earthmri", training__batch=64)
    card, points = card_of(settings, window=512), spread_points(300, 2000)
    arguments = (card, grid_of(2000, 2000), points)
    needs.ensure_baselines_fit(*arguments, False, CPU)
    error = refusal(needs.ensure_baselines_fit, *arguments, True, CPU)
    assert error.message.startswith("Training would need about ")
    assert error.hint == "Leave unet-seg and unet-density out of --baselines."
