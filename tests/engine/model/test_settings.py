"""The presets against the paper's tables, and changing single settings."""

import pytest
from geocfm.errors import UserError
from geocfm.model.settings import PRESETS, Settings, change_settings, choose_preset
from pydantic import ValidationError


def value(preset: str, path: str) -> object:
    found: object = PRESETS[preset]
    for name in path.split("."):
        found = getattr(found, name)
    return found


# setting, synthetic, Earth MRI: as the paper prints them. The input channels follow from the
# user's layers; test_unet.py counts the parameters with 2 and 8 of them.
ARCHITECTURE_TABLE = [
    ("network.width", 32, 48),
    ("network.depth", 3, 3),
    ("network.features", 64, 128),
    ("network.time_dim", 64, 64),
    ("network.head", "residual", "mlp"),
    ("network.head_width", 256, 256),
    ("network.head_depth", 3, 3),
]
OPTIMIZATION_TABLE = [
    ("training.batch", 4, 8),
    ("training.learning_rate", 3e-4, 3e-4),
    ("training.weight_decay", 1e-4, 1e-4),
    ("training.iterations", 500_000, 400_000),
    ("training.clip", 1.0, 1.0),
    ("training.validate_every", 250, 2_000),
    ("training.preview_every", 250, 10_000),
    ("sampling.steps", 50, 50),
    ("sampling.points", 500, 300),
]
# the paper's text, and what was decided where it is silent
TEXT = [
    ("network.coordinates", "unit", "unit"),
    ("network.context", "none", "none"),
    ("network.stem", 1, 1),
    ("network.density", False, False),
    ("network.anchor", 0, 0),
    ("sampling.lateness", 0, 0),
    ("sampling.solver", "euler", "euler"),
    ("sampling.noise", "independent", "independent"),
    ("sampling.outside", "clip", "clip"),
    ("training.minutes", None, None),
    ("training.warm_up", 0, 0),
    ("training.ema", 0, 0),
    ("training.final_rate", 0.01, 0.01),
    ("training.points_per_step", 0, 0),
    ("training.augment", False, False),
    ("training.patience", 0, 0),
    ("windows.size", 220, 128),
    ("windows.footprint", 0.5, 0.5),
    ("windows.test_share", 0.2, 0.2),
    ("windows.split_seed", 42, 42),
    ("windows.balanced", False, False),
    ("windows.validity_channels", False, False),
    ("windows.positions", "counts", "counts"),
    ("windows.standardise", "window", "region"),
]


@pytest.mark.parametrize(
    ("path", "synthetic", "earth_mri"), [*ARCHITECTURE_TABLE, *OPTIMIZATION_TABLE, *TEXT]
)
def test_paper_presets_hold_the_papers_numbers(path, synthetic, earth_mri):
    assert value("paper-synthetic", path) == synthetic
    assert value("paper-earthmri", path) == earth_mri


def test_earth_mri_patches_and_tiles():
    windows = PRESETS["paper-earthmri"].windows
    assert (windows.size, windows.stride, windows.tile) == (128, 16, 384)
    assert windows.zero_is_nodata


@pytest.mark.parametrize("name", list(PRESETS))
def test_every_preset_is_valid_and_survives_json(name):
    preset = PRESETS[name]
    assert preset.preset == name
    assert Settings.model_validate(preset.model_dump()) == preset
    assert Settings.model_validate_json(preset.model_dump_json()) == preset
    training = preset.training
    assert (training.iterations is None) != (training.minutes is None)


def test_our_presets_keep_the_decisions_for_new_work():
    for name in ("quick", "full"):
        settings = PRESETS[name]
        assert settings.network.coordinates == "centred"
        assert settings.network.context == "pooled"
        assert settings.sampling.outside == "reject"
        assert settings.windows.validity_channels
        assert settings.windows.positions == "exact"
        assert not settings.windows.zero_is_nodata


def test_settings_cannot_be_changed_in_place():
    with pytest.raises(ValidationError):
        PRESETS["quick"].network.width = 64


def test_choosing_a_preset():
    assert choose_preset("paper-earthmri", accelerated=False) is PRESETS["paper-earthmri"]
    assert choose_preset("auto", accelerated=False).preset == "quick"
    assert choose_preset("auto", accelerated=True).preset == "full"
    with pytest.raises(UserError, match=r"'fast'.*auto, quick, full"):
        choose_preset("fast", accelerated=False)


def test_changing_settings():
    before = PRESETS["paper-synthetic"]
    after = change_settings(
        before,
        {
            "network.width": "24",
            "windows.size": "none",
            "training.augment": "true",
            "training.learning_rate": "1e-3",
            "sampling.solver": "heun",
        },
    )
    assert after.network.width == 24
    assert after.windows.size is None
    assert after.training.augment is True
    assert after.training.learning_rate == 0.001
    assert after.sampling.solver == "heun"
    assert before.network.width == 32
    assert before.windows.size == 220
    unchanged = after.model_dump()
    for room, key in (
        ("network", "width"),
        ("windows", "size"),
        ("training", "augment"),
        ("training", "learning_rate"),
        ("sampling", "solver"),
    ):
        unchanged[room][key] = before.model_dump()[room][key]
    assert unchanged == before.model_dump()
    assert change_settings(before, {}) == before


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("network.girth", "Did you mean 'network.width'?"),
        ("width", "Did you mean 'network.width'?"),
        ("network.width.more", "Did you mean 'network.width'?"),
        ("preset", "The settings are: network.stem, network.width, "),
        ("", "The settings are: network.stem, network.width, "),
        (".", "The settings are: network.stem, network.width, "),
    ],
)
def test_settings_that_do_not_exist(path, near):
    with pytest.raises(UserError) as caught:
        change_settings(PRESETS["quick"], {path: "16"})
    assert f"'{path}'" in caught.value.message
    assert caught.value.hint.startswith(near)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("network.width", "12"),  # GroupNorm has 8 groups
        ("network.width", "wide"),
        ("network.width", "none"),
        ("network.head", "transformer"),
        ("windows.footprint", "0"),
        ("windows.size", "8"),
        ("training.batch", "2.5"),
        ("training.learning_rate", "-1"),
        ("training.learning_rate", "nan"),
        ("sampling.steps", "0"),
        ("sampling.solver", "Euler"),
    ],
)
def test_values_that_cannot_be(path, text):
    with pytest.raises(UserError) as caught:
        change_settings(PRESETS["quick"], {path: text})
    assert f"--set {path}: " in caught.value.message
    assert (text if text != "none" else "None") in caught.value.message
    assert "it must be " in caught.value.message


def test_the_word_none_is_a_value_where_there_is_such_a_value():
    changed = change_settings(
        PRESETS["quick"], {"network.context": "none", "training.minutes": "none"}
    )
    assert changed.network.context == "none"
    assert changed.training.minutes is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"network.density": "false"}, "density=true, or network.anchor=0"),
        ({"network.coordinates": "unit"}, "coordinates=centred, or network.anchor=0"),
        ({"network.depth": "4"}, "16 at most"),
        ({"network.norm": "group"}, "norm=position, or network.density=false"),
        (
            {"network.density": "false", "network.anchor": "0", "network.start": "process"},
            "density=true, or network.start=even",
        ),
        ({"windows.margin": "24"}, "multiple of 16"),
        (
            {
                "network.density": "false",
                "network.anchor": "0",
                "network.start": "even",
                "training.ground": "region",
            },
            "density=true, or training.ground=window",
        ),
    ],
)
def test_settings_that_do_not_go_together(change, said):
    with pytest.raises(UserError, match=said):
        change_settings(PRESETS["quick"], change)


def test_settings_from_before_the_density_head_mean_what_they_meant():
    """A checkpoint's card without the newer settings: no stem, no density, even steps."""
    dump = PRESETS["quick"].model_dump()
    for room, key in [
        ("network", "stem"),
        ("network", "norm"),
        ("network", "scale"),
        ("network", "density"),
        ("network", "anchor"),
        ("network", "start"),
        ("windows", "margin"),
        ("training", "density_weight"),
        ("training", "ground"),
        ("training", "empty"),
        ("sampling", "lateness"),
        ("sampling", "noise"),
    ]:
        del dump[room][key]
    old = Settings.model_validate(dump)
    assert (old.network.stem, old.network.density, old.network.anchor) == (1, False, 0)
    assert (old.network.norm, old.windows.margin, old.training.ground) == ("group", 0, "window")
    assert not old.is_local
    assert old.network.scale == pytest.approx(12**0.5)
    assert (old.sampling.lateness, old.sampling.noise) == (0, "independent")


@pytest.mark.parametrize("preset", PRESETS)
def test_only_ours_are_one_intensity_over_the_region(preset):
    settings = PRESETS[preset]
    assert settings.is_local == (not preset.startswith("paper-"))
    by_window = change_settings(settings, {"windows.standardise": "window"})
    assert not by_window.is_local  # what a value means depends on the window


def test_the_period_is_that_of_the_coarsest_cells():
    assert PRESETS["quick"].network.period == 4 * 2 * 2
    assert PRESETS["full"].network.period == 2 * 2 * 2 * 2
    assert change_settings(PRESETS["quick"], {"windows.margin": "32"}).windows.margin == 32
