"""A checkpoint comes back as it was, and a file that is none is refused without running it."""

import json
import pickle
import zipfile
from pathlib import Path

import pytest
import safetensors.torch
import torch
from geocfm.errors import UserError
from geocfm.model.checkpoint import (
    FORMAT,
    GridCard,
    LayerCard,
    ModelCard,
    OccurrenceCard,
    SplitCard,
    channel_layout,
    checkpoint_bytes,
    load_card,
    load_checkpoint,
)
from geocfm.model.experience import Experience
from geocfm.model.network import VelocityNetwork
from geocfm.model.settings import PRESETS, Settings, change_settings
from geocfm.versions import software_versions

CPU = torch.device("cpu")
SETTINGS = change_settings(
    PRESETS["quick"],
    {
        "network.width": "8",
        "network.depth": "2",
        "network.head_width": "16",
        "training.minutes": "none",
        "training.iterations": "7",
    },
)


def make_card(settings: Settings = SETTINGS, **changes: object) -> ModelCard:
    values = {
        "settings": settings,
        "layers": (
            LayerCard(name="mag", units="nT", mean=1 / 3, std=0.1),
            LayerCard(name="rock", categorical=True, classes=(-1, 2, 5)),
        ),
        "window_size": 48,
        "grid": GridCard(
            crs='GEOGCRS["any"]', transform=(0.1, 0, 1, 0, -0.1, 2), height=9, width=8
        ),
        "split": SplitCard(row_edges=(0, 4, 9), col_edges=(0, 8), roles=(("train",), ("test",))),
        "occurrences": OccurrenceCard(
            source="gold.shp", where=("commod1 ~ gold",), counts={"read": 9, "used": 7}
        ),
        "seed": 3,
        "iterations": 7,
        "metrics": {"validation_loss": 0.1 + 0.2},
        "created": "2024-05-06",
        "versions": software_versions(),
        **changes,
    }
    return ModelCard.model_validate(values)


CARD = make_card()


def make_network(card: ModelCard = CARD) -> VelocityNetwork:
    torch.manual_seed(8)
    network = VelocityNetwork(card.channels, card.settings.network)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    return network


def write(path: Path, weights: dict[str, torch.Tensor], metadata: dict[str, str] | None) -> Path:
    path.write_bytes(safetensors.torch.save(weights, metadata))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(checkpoint_bytes([make_network().state_dict()], CARD))
    return path


def test_round_trip(path):
    network = make_network()
    loaded = load_checkpoint(path, CPU)
    assert loaded.card == CARD
    assert load_card(path) == CARD
    before, after = network.state_dict(), loaded.network.state_dict()
    assert list(before) == list(after)
    for name, tensor in before.items():
        assert tensor.dtype == after[name].dtype
        assert torch.equal(tensor, after[name]), name
    assert not loaded.network.training
    assert not any(p.requires_grad for p in loaded.network.parameters())
    images, where, t = torch.randn(1, CARD.channels, 20, 20), torch.randn(5, 2), torch.rand(5)
    image = torch.zeros(5, dtype=torch.int64)
    with torch.no_grad():
        moved = network.eval().velocity(network.encode(images), where, t, image)
        again = loaded.network.velocity(loaded.network.encode(images), where, t, image)
    assert torch.equal(moved, again)
    assert (moved != 0).all()


def test_experience_comes_back_and_older_files_have_none(path, tmp_path):
    assert load_checkpoint(path, CPU).experience is None
    layout = channel_layout(CARD.layers, CARD.settings.windows)
    seen = Experience(torch.randn(7, layout.channels), 0.6, layout)
    later = tmp_path / "later.safetensors"
    later.write_bytes(checkpoint_bytes([make_network().state_dict()], CARD, seen))
    loaded = load_checkpoint(later, CPU)
    assert torch.equal(loaded.experience.references, seen.references)
    assert (loaded.experience.radius, loaded.experience.layout) == (0.6, layout)
    before, after = load_checkpoint(path, CPU).network.state_dict(), loaded.network.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_weights_in_another_memory_order_come_back(tmp_path):
    network = make_network().to(memory_format=torch.channels_last)
    path = tmp_path / "a.safetensors"
    path.write_bytes(checkpoint_bytes([network.state_dict()], CARD))
    loaded = load_checkpoint(path, CPU).network.state_dict()
    assert all(torch.equal(tensor, loaded[name]) for name, tensor in network.state_dict().items())


def test_same_content_same_bytes(path):
    assert checkpoint_bytes([make_network().state_dict()], make_card()) == path.read_bytes()


@pytest.mark.parametrize("preset", list(PRESETS))
def test_every_preset_comes_back(tmp_path, preset):
    card = make_card(PRESETS[preset])
    path = write(tmp_path / "a.safetensors", {}, {"geocfm": card.model_dump_json()})
    assert load_card(path) == card


@pytest.mark.parametrize("figure", [float("nan"), float("inf")])
def test_figures_that_are_no_numbers_come_back(tmp_path, figure):
    card = make_card(metrics={"validation_loss": figure, "training_loss": 1.5})
    path = tmp_path / "a.safetensors"
    path.write_bytes(checkpoint_bytes([make_network().state_dict()], card))
    metrics = load_card(path).metrics
    assert metrics["validation_loss"] == pytest.approx(figure, nan_ok=True)
    assert metrics["training_loss"] == 1.5


def test_channels_are_values_classes_and_validity():
    assert CARD.channels == 1 + 3 + 2
    plain = change_settings(SETTINGS, {"windows.validity_channels": "false"})
    assert make_card(plain).channels == 1 + 3


def test_the_card_in_sentences():
    text = "\n".join(CARD.sentences())
    assert "7 occurrences in gold.shp where commod1 ~ gold" in text
    assert "Layer mag: mean 0.333333 nT, standard deviation 0.1 nT." in text
    assert "Layer rock: 3 classes." in text
    assert "9 rows x 8 columns, cell size 0.1, any; windows of 48 cells" in text
    assert "Tiles: 1 train, 0 validation, 1 test. Seed 3, iteration 7" in text
    assert "validation loss 0.3000" in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"training.ground": "region"}, "all training tiles count as evenly searched, so ground"),
        ({"network.start": "process"}, "corrects a Poisson process of single cells"),
        ({"network.start": "even"}, "only the 48 cells around known occurrences"),
        ({"windows.standardise": "window"}, "each window that is mapped counts as evenly searched"),
    ],
)
def test_the_ground_that_counted_as_searched_is_said(changes, said):
    card = make_card(change_settings(SETTINGS, changes))
    assert said in card.searched()
    assert card.searched() in card.sentences()
    poor = "ground where nobody has looked is rated low"
    learned_from_all = changes.keys() <= {"training.ground", "network.start"}
    assert (poor in card.searched()) == (learned_from_all and "even" not in changes.values())
    reach = f"up to {card.settings.network.reach} cells around it"
    assert (reach in "\n".join(card.sentences())) == card.settings.is_local


class Bomb:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("dump", [pickle.dump, torch.save], ids=["pickle", "torch.save"])
def test_a_pickle_is_refused_and_not_run(tmp_path, dump):
    proof = tmp_path / "exploded"
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        dump(Bomb(proof), file)
    for load in (load_card, lambda path: load_checkpoint(path, CPU)):
        with pytest.raises(UserError, match="is a PyTorch pickle, which could run code"):
            load(path)
    assert not proof.exists()
    with path.open("rb") as file:
        if dump is pickle.dump:
            pickle.load(file)  # it was armed
            assert proof.exists()


@pytest.mark.parametrize("share", [0, 0.001, 0.05, 0.5, 0.999999])
def test_a_truncated_file_is_refused(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    for load in (load_card, lambda path: load_checkpoint(path, CPU)):
        with pytest.raises(UserError, match="damaged, incomplete"):
            load(path)


@pytest.mark.parametrize("name", ["none.safetensors", "."])
def test_no_file(tmp_path, name):
    for load in (load_card, lambda path: load_checkpoint(path, CPU)):
        with pytest.raises(UserError, match="no checkpoint at"):
            load(tmp_path / name)


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {"format": "pt"},
        {"geocfm": "not JSON"},
        {"geocfm": "[1, 2]"},
        {"geocfm": "null"},
        {"geocfm": "{}"},
        {"geocfm": json.dumps({"format": FORMAT})},
        {"geocfm": json.dumps({**json.loads(CARD.model_dump_json()), "window_size": "large"})},
        {"geocfm": json.dumps({**json.loads(CARD.model_dump_json()), "format": "first"})},
    ],
)
def test_a_foreign_safetensors_file_is_refused(tmp_path, metadata):
    path = write(tmp_path / "other.safetensors", {"weight": torch.ones(3)}, metadata)
    for load in (load_card, lambda path: load_checkpoint(path, CPU)):
        with pytest.raises(UserError, match="not a GeoCFM checkpoint"):
            load(path)


def test_a_card_of_a_newer_format_is_refused(tmp_path):
    """Whatever else it holds: a newer card need not be readable."""
    content = {"format": FORMAT + 1, "settings": "told otherwise"}
    path = write(tmp_path / "new.safetensors", {}, {"geocfm": json.dumps(content)})
    for load in (load_card, lambda path: load_checkpoint(path, CPU)):
        with pytest.raises(UserError, match=f"newer GeoCFM .format {FORMAT + 1}.*Update"):
            load(path)


def test_a_card_with_an_unknown_entry_is_read(tmp_path):
    content = {**json.loads(CARD.model_dump_json()), "colour": "green"}
    path = write(tmp_path / "a.safetensors", {}, {"geocfm": json.dumps(content)})
    assert load_card(path) == CARD


def without(weights: dict[str, torch.Tensor], name: str) -> dict[str, torch.Tensor]:
    return {key: value for key, value in weights.items() if key != name}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda weights: {},
        lambda weights: without(weights, "unet.final.bias"),
        lambda weights: {**weights, "unet.more": torch.ones(2)},
        lambda weights: {**weights, "unet.final.bias": torch.ones(5)},
        lambda weights: {name: tensor.to(torch.int32) for name, tensor in weights.items()},
    ],
    ids=["none", "one missing", "one too many", "another shape", "another type"],
)
def test_weights_that_do_not_fit_are_refused(path, spoil):
    weights = {key: value.contiguous() for key, value in make_network().state_dict().items()}
    write(path, spoil(weights), {"geocfm": CARD.model_dump_json()})
    assert load_card(path) == CARD
    with pytest.raises(UserError, match="do not fit the network"):
        load_checkpoint(path, CPU)


@pytest.mark.parametrize(
    "network",
    [
        {"width": 8 * 10**8},
        {"width": 8 * 10**30},
        {"features": 10**10},
        {"time_dim": 10**12},
        {"head_width": 10**6},
        {"head_depth": 10**9},
    ],
    ids=str,
)
def test_a_card_that_describes_a_vast_network_takes_no_memory(path, network):
    """Built in earnest, none of these would fit into a computer."""
    content = json.loads(CARD.model_dump_json())
    content["settings"]["network"].update(network)
    write(path, make_network().state_dict(), {"geocfm": json.dumps(content)})
    with pytest.raises(UserError, match="do not fit the network"):
        load_checkpoint(path, CPU)


@pytest.mark.parametrize("figure", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(path, figure):
    weights = make_network().state_dict()
    weights["unet.final.bias"][3] = figure
    write(path, weights, {"geocfm": CARD.model_dump_json()})
    with pytest.raises(UserError, match=r"Some weights .* are no numbers"):
        load_checkpoint(path, CPU)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"layers": ()}, "no layers"),
        ({"layers": (CARD.layers[0],) * 2}, "two layers of one name"),
        ({"layers": (LayerCard(name="mag", mean=float("nan")),)}, "layers without statistics"),
        ({"layers": (LayerCard(name="mag", std=-1),)}, "layers without statistics"),
        ({"window_size": 0}, "windows of 0 cells"),
        ({"window_size": 10**9}, "windows of 1000000000 cells"),
        ({"grid": CARD.grid.model_copy(update={"height": -1})}, "a grid without extent"),
        ({"grid": CARD.grid.model_copy(update={"transform": (0.0,) * 6})}, "a grid without extent"),
        ({"split": CARD.split.model_copy(update={"row_edges": (0, 9)})}, "tiles that do not fit"),
        ({"split": CARD.split.model_copy(update={"row_edges": (0, 9, 4)})}, "tiles that do not"),
        ({"split": CARD.split.model_copy(update={"col_edges": ()})}, "tiles that do not fit"),
    ],
)
def test_a_card_that_cannot_be_right_is_refused(path, changes, told):
    card = CARD.model_copy(update=changes)
    write(path, {}, {"geocfm": card.model_dump_json()})
    with pytest.raises(UserError, match=f"cannot be right: it tells of {told}"):
        load_card(path)


def test_another_archive_is_not_called_a_pickle(tmp_path):
    path = tmp_path / "model.safetensors"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("map.txt", "gold")
    with pytest.raises(UserError, match="cannot be read as a GeoCFM checkpoint"):
        load_card(path)
