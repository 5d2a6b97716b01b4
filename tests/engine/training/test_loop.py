from __future__ import annotations

import io
import itertools
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from geocfm.data.region import Region
from geocfm.data.region_batches import RegionBatches
from geocfm.errors import Cancelled, UserError
from geocfm.events import JsonSink, Reporter
from geocfm.job import TrainJob
from geocfm.model.checkpoint import load_checkpoint
from geocfm.model.network import VelocityNetwork, new_network
from geocfm.model.settings import Settings, change_settings
from geocfm.run.learn import choose_settings, open_region
from geocfm.training.loop import TrainingResult, train
from geocfm.training.losses import flow_loss
from geocfm.training.members import with_iterations
from geocfm.training.resume import (
    STATE,
    RunState,
    Snapshot,
    discard_state,
    load_state,
    save_state,
)
from geocfm.training.schedule import learning_rate
from small_data import TINY_SETTINGS, SmallRegion, json_lines

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def settings(small_region: SmallRegion) -> Settings:
    job = TrainJob(
        raster=small_region.rasters,
        occurrences=small_region.occurrences,
        window=32,
        tile=40,
        iterations=8,
        settings=[*TINY_SETTINGS, "training.batch=2", "training.points_per_step=256"],
        out=small_region.folder / "unused.safetensors",
    )
    return choose_settings(job, accelerated=False)


@pytest.fixture(scope="module")
def region(small_region: SmallRegion, settings: Settings, one_thread: None) -> Iterator[Region]:
    job = TrainJob(
        raster=small_region.rasters,
        occurrences=small_region.occurrences,
        out=small_region.folder / "unused.safetensors",
    )
    with open_region(job, settings, CPU, Reporter(JsonSink(io.StringIO()))) as opened:
        yield opened


@pytest.fixture
def small_network(settings: Settings) -> VelocityNetwork:
    return new_network(6, settings, 1)


@dataclass
class Run:
    """What a run of the loop said and kept."""

    kept: list[Snapshot] = field(default_factory=list)
    states: list[RunState] = field(default_factory=list)
    previews: int = 0
    text: io.StringIO = field(default_factory=io.StringIO)
    events: io.StringIO = field(default_factory=io.StringIO)
    cancelled: threading.Event = field(default_factory=threading.Event)
    result: TrainingResult | None = None

    @property
    def log(self) -> list[dict[str, Any]]:
        return json_lines(self.text.getvalue())

    @property
    def validations(self) -> list[tuple[int, float]]:
        return [
            (row["iteration"], row["validation_loss"])
            for row in self.log
            if "validation_loss" in row
        ]


Start = Callable[..., Run]


@pytest.fixture
def start(region: Region, settings: Settings) -> Start:
    """Train on the small region; ``each`` sees the run after every saved state."""

    def start_run(
        seed: int = 1,
        each: Callable[[Run], None] = lambda run: None,
        into: Run | None = None,
        earlier: RunState | None = None,
        settings: Settings = settings,
        **changes: Any,
    ) -> Run:
        run = into or Run()
        texts = {f"training.{name}": str(value) for name, value in changes.items()}
        chosen = change_settings(settings, texts) if texts else settings
        channels = 2 * len(region.stack.layers)

        def save(state: RunState) -> None:
            run.states.append(state)
            each(run)

        def preview(network: VelocityNetwork) -> None:
            run.previews += 1

        run.result = train(
            RegionBatches(region, chosen.training, seed),
            new_network(channels, chosen, seed),
            flow_loss,
            chosen.training,
            CPU,
            Reporter(JsonSink(run.events), run.cancelled),
            run.text,
            save,
            run.kept.append,
            preview,
            earlier,
        )
        return run

    return start_run


def same(first: Snapshot, second: Snapshot) -> bool:
    assert first.weights.keys() == second.weights.keys()
    return all(torch.equal(first.weights[k], second.weights[k]) for k in first.weights)


def test_same_seed_same_weights_other_seed_others(start: Start) -> None:
    runs = [start(seed=seed).result for seed in (5, 5, 6)]
    lasts = [run.last for run in runs if run is not None]
    assert same(lasts[0], lasts[1])
    assert lasts[0].metrics == lasts[1].metrics
    assert not same(lasts[0], lasts[2])


def test_the_first_weights_depend_on_the_seed_alone(settings: Settings) -> None:
    torch.manual_seed(99)
    before = torch.random.get_rng_state()
    networks = [new_network(6, settings, seed).state_dict() for seed in (1, 1, 2)]
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(networks[0][k], networks[1][k]) for k in networks[0])
    assert not all(torch.equal(networks[0][k], networks[2][k]) for k in networks[0])


def test_the_best_has_ever_lower_validation_losses(start: Start) -> None:
    run = start(iterations=20, validate_every=2, save_every=0)
    assert [iteration for iteration, _ in run.validations] == list(range(0, 21, 2))
    bests = [state.best for state in run.states if state.best]
    losses = [best.metrics["validation_loss"] for best in bests]
    assert losses == sorted(losses, reverse=True)
    assert run.result is not None
    assert run.result.best.metrics["validation_loss"] == min(loss for _, loss in run.validations)
    assert same(run.result.best, bests[-1])
    assert run.result.last.iteration == 20
    assert not run.kept  # what ends well is no leftover
    if run.result.best.iteration != 20:
        assert not same(run.result.best, run.result.last)


@pytest.mark.parametrize("validate_every", ["none", "4"])
def test_a_run_goes_on_from_any_state_as_if_nothing_had_happened(
    start: Start, validate_every: str, small_network: VelocityNetwork, tmp_path: Path
) -> None:
    changes = {"iterations": 12, "validate_every": validate_every, "ema": 0.97}
    whole = start(**changes, save_every=0)
    assert whole.result is not None
    assert len(whole.states) > 5
    for state in whole.states[::3]:
        save_state(tmp_path, state)
        later = Run()
        later.text.write(whole.text.getvalue())  # lines after the state are written anew
        start(**changes, into=later, earlier=load_state(tmp_path, small_network))
        assert later.result is not None
        assert same(later.result.best, whole.result.best)
        assert same(later.result.last, whole.result.last)
        assert later.result.best.metrics == whole.result.best.metrics
        assert without_times(later.log) == without_times(whole.log)


def without_times(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: row[key] for key in row if key != "seconds"} for row in log]


def test_a_saved_state_leaves_three_files_and_is_at_most_three_models(
    start: Start, tmp_path: Path
) -> None:
    run = start(iterations=8, validate_every=2, save_every=0)
    for state in run.states:
        save_state(tmp_path, state)
        assert len(list(tmp_path.iterdir())) == (3 if state.best else 2)
    sizes = {path.name.split("-")[0]: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes[STATE] < 3.1 * sizes["averaged"]  # 3 with the card that a model has


def test_what_cannot_be_read_or_does_not_fit_is_no_state(
    start: Start, settings: Settings, small_network: VelocityNetwork, tmp_path: Path
) -> None:
    assert load_state(tmp_path, small_network) is None
    save_state(tmp_path, start(iterations=4, save_every=0).states[-1])
    assert load_state(tmp_path, small_network) is not None
    for path in tmp_path.iterdir():
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        assert load_state(tmp_path, small_network) is None
        path.write_bytes(content)
    assert load_state(tmp_path, small_network) is not None
    assert load_state(tmp_path, new_network(5, settings, 1)) is None
    deeper = change_settings(settings, {"network.head_depth": "2"})
    assert load_state(tmp_path, new_network(6, deeper, 1)) is None


def test_validation_noise_is_fixed_along_the_run(start: Start) -> None:
    # weights that do not move must have one validation loss
    run = start(iterations=6, validate_every=1, learning_rate=1e-30, weight_decay=0)
    assert len({loss for _, loss in run.validations}) == 1


def test_stops_early_when_validation_no_longer_improves(start: Start) -> None:
    run = start(iterations=300, validate_every=1, patience=3, learning_rate=0.3, warm_up=0)
    assert run.result is not None
    assert run.result.stopped_early
    losses = [loss for _, loss in run.validations]
    assert losses.index(min(losses)) == len(losses) - 1 - 3
    assert run.result.last.iteration == len(losses) - 1 < 300
    assert run.result.best.iteration == len(losses) - 1 - 3


def test_no_patience_means_no_early_stop(start: Start) -> None:
    run = start(iterations=15, validate_every=1, learning_rate=0.3, warm_up=0)
    assert run.result is not None
    assert not run.result.stopped_early
    assert run.result.last.iteration == 15


def test_a_time_budget_ends_the_run_and_leads_the_schedule(
    start: Start, settings: Settings
) -> None:
    seconds = 1.5
    changes = {"minutes": seconds / 60, "iterations": "none", "final_rate": 0.1}
    run = start(**changes)
    steps = [row for row in run.log if "loss" in row]
    assert len(steps) > 3
    # the last step is the one that passes the bound, and the only one
    assert steps[-1]["seconds"] >= seconds - 1e-3
    assert steps[-2]["seconds"] < seconds
    # the rate of a step belongs to a moment between the last step's end and its own
    schedule = change_settings(
        settings, {f"training.{name}": str(value) for name, value in changes.items()}
    ).training
    after_warm_up = [row for row in steps if row["seconds"] > schedule.warm_up * seconds]
    for before, row in itertools.pairwise(after_warm_up):
        early = learning_rate((before["seconds"] - 1e-3) / seconds, schedule)
        late = learning_rate(min((row["seconds"] + 1e-3) / seconds, 1), schedule)
        assert late <= row["learning_rate"] <= early
    assert steps[-1]["learning_rate"] < 0.5 * max(row["learning_rate"] for row in steps)


@pytest.mark.parametrize(("warm_up", "iterations"), [(0.1, 50), (0.0, 50), (0.0, 1)])
def test_a_broken_loss_is_explained_and_only_good_weights_are_kept(
    start: Start, warm_up: float, iterations: int
) -> None:
    run = Run()
    with pytest.raises(UserError, match=r"broke down at iteration \d+: the loss is (nan|inf)") as e:
        start(
            into=run,
            iterations=iterations,
            learning_rate=1e30,
            warm_up=warm_up,
            validate_every=1,
        )
    assert "learning rate" in e.value.hint
    assert len(run.log) >= 1
    for snapshot in run.kept:
        assert math.isfinite(snapshot.metrics["validation_loss"])
        assert all(torch.isfinite(tensor).all() for tensor in snapshot.weights.values())
    assert all(snapshot.iteration for snapshot in run.kept)  # what it began with is no model


def test_cancelling_keeps_the_best_so_far(start: Start) -> None:
    run = Run()
    with pytest.raises(Cancelled):
        start(
            into=run,
            each=lambda it: it.cancelled.set() if len(it.states) == 2 else None,
            iterations=500,
            validate_every=2,
            save_every=0,
        )
    losses = dict(run.validations)
    assert list(losses) == [0, 2, 3]  # the last when it was cancelled
    assert [snapshot.iteration for snapshot in run.kept] == [min(losses, key=losses.__getitem__)]
    assert [state.position.iteration for state in run.states] == [1, 2, 3]


def test_what_a_run_begins_with_may_be_its_best(start: Start) -> None:
    run = start(iterations=6, validate_every=2, learning_rate=0.5, warm_up=0)
    assert run.result is not None
    assert run.result.best.iteration == 0
    assert run.validations[0][0] == 0
    assert run.result.best.metrics == {"validation_loss": run.validations[0][1]}
    assert min(loss for _, loss in run.validations[1:]) > run.validations[0][1]


def test_the_first_step_learns(start: Start) -> None:
    run = start(iterations=20, validate_every=1, ema=0)
    rates = [row["learning_rate"] for row in run.log if "loss" in row]
    assert rates[0] > 0
    assert run.validations[0][1] != run.validations[1][1]


def test_no_iterations_leave_what_it_began_with(start: Start, settings: Settings) -> None:
    run = start(iterations=1)
    none = start(settings=with_iterations(settings, 0))
    assert none.result is not None
    assert none.result.best.iteration == none.result.last.iteration == 0
    assert none.validations == run.validations[:1]


def test_cancelling_before_the_first_validation_keeps_the_better_of_start_and_now(
    start: Start,
) -> None:
    run = Run()
    run.cancelled.set()
    with pytest.raises(Cancelled):
        start(into=run, iterations=500, validate_every=400)
    losses = dict(run.validations)
    assert list(losses) == [0, 1]
    assert [snapshot.iteration for snapshot in run.kept] == [min(losses, key=losses.__getitem__)]
    assert "validation_loss" in run.kept[0].metrics


def test_progress_says_no_validation_loss_that_is_not_known(start: Start) -> None:
    run = start(iterations=3, validate_every=2)
    told = [line["values"] for line in json_lines(run.events.getvalue())]
    assert told
    for values in told:
        assert all(value is not None and value > 0 for value in values.values())


def test_without_validation_windows_the_last_weights_are_kept(
    region: Region, settings: Settings
) -> None:
    starts = {**region.starts, "validation": np.zeros((0, 2), dtype=np.int64)}
    alone = replace(region, starts=starts)
    chosen = change_settings(settings, {"training.validate_every": "2"})
    states: list[RunState] = []
    chosen = change_settings(chosen, {"training.save_every": "0"})
    log, events = io.StringIO(), io.StringIO()
    result = train(
        RegionBatches(alone, chosen.training, 1),
        new_network(6, chosen, 1),
        flow_loss,
        chosen.training,
        CPU,
        Reporter(JsonSink(events)),
        log,
        states.append,
        lambda snapshot: None,
        lambda network: None,
    )
    assert {state.best.iteration for state in states if state.best} == {0, 2, 4, 6, 8}
    assert same(result.best, result.last)
    told = [line["values"] for line in json_lines(events.getvalue())]
    assert all(values.keys() == {"loss"} for values in told)
    assert [row["iteration"] for row in json_lines(log.getvalue())] == list(range(1, 9))


def test_previews_come_when_asked_for(start: Start) -> None:
    assert start(iterations=7, preview_every=3).previews == 2
    assert start(iterations=3).previews == 0


def test_the_log_of_a_real_run_has_every_iteration(trained: Any) -> None:
    steps = [row for row in trained.log if "loss" in row]
    assert [row["iteration"] for row in steps] == list(range(1, trained.iterations + 1))
    assert all(row.keys() >= {"seconds", "learning_rate"} for row in trained.log)
    seconds = [row["seconds"] for row in trained.log]
    assert seconds == sorted(seconds)


def test_the_loss_falls_on_data_with_a_pattern(start: Start) -> None:
    run = start(iterations=120)  # from nothing: what single cells say is not fitted here
    losses = [row["loss"] for row in run.log if "loss" in row]
    first, last = losses[:10], losses[-20:]
    assert sum(last) / len(last) < 0.85 * sum(first) / len(first)
    validations = [loss for _, loss in run.validations]
    assert min(validations) < 0.95 * validations[0]


def test_the_model_kept_is_the_one_with_the_lowest_validation_loss(trained: Any) -> None:
    rows = [row for row in trained.log if "validation_loss" in row]
    best = min(rows, key=lambda row: row["validation_loss"])
    card = load_checkpoint(trained.checkpoint, CPU).card
    assert card.iterations == best["iteration"]
    assert card.metrics["validation_loss"] == best["validation_loss"]
    last = load_checkpoint(trained.checkpoint.with_name("model.last.safetensors"), CPU).card
    assert last.iterations == trained.iterations
    assert last.metrics["validation_loss"] == rows[-1]["validation_loss"]


def test_the_preview_of_a_real_run_is_a_picture(trained: Any) -> None:
    picture = trained.checkpoint.with_name("model.preview.png")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_nothing_of_a_discarded_state_is_left_for_the_next_run(
    start: Start, tmp_path: Path
) -> None:
    save_state(tmp_path, start(iterations=4, save_every=0).states[-1])
    (tmp_path / "log.jsonl").write_text("stays")
    discard_state(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]
