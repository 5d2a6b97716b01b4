from geocfm_qgis import settings


def test_all_is_empty_at_first(own_settings):
    assert settings.engine_python() == ""
    assert settings.default_device() == "auto"
    assert settings.results_folder() == ""
    assert settings.environment_folder() == ""
    assert settings.known_engine() == {}
    assert settings.known_devices() == []


def test_what_is_set_is_remembered(own_settings):
    settings.set_engine_python("/opt/Köln/python")
    settings.set_default_device("cuda:1")
    settings.set_results_folder("/data/Erze")
    settings.set_wheels_folder("/data/wheels")
    settings.set_package_index("https://index.example/simple")
    assert settings.engine_python() == "/opt/Köln/python"
    assert settings.default_device() == "cuda:1"
    assert settings.results_folder() == "/data/Erze"
    assert settings.wheels_folder() == "/data/wheels"
    assert settings.package_index() == "https://index.example/simple"


def test_a_variable_outweighs_the_python_that_is_set(own_settings, monkeypatch):
    settings.set_engine_python("/opt/python")
    monkeypatch.setenv("GEOCFM_PYTHON", "/server/python")
    assert settings.engine_python() == "/server/python"


def test_an_index_with_a_password_is_not_written_down(own_settings):
    settings.set_package_index("https://anna:geheim@index.example/simple")
    assert settings.package_index() == ""


def test_devices_belong_to_the_python_that_named_them(own_settings):
    settings.set_engine_python("/opt/python")
    settings.set_known_engine("/opt/python", {"torch": "2.13"}, [("cuda", "RTX 4090")])
    assert settings.known_devices() == [("cuda", "RTX 4090")]
    settings.set_engine_python("/opt/other")
    assert settings.known_devices() == []


def test_a_damaged_entry_counts_as_none(own_settings):
    from qgis.core import QgsSettings

    QgsSettings().setValue("geocfm/known_engine", "{oops")
    assert settings.known_engine() == {}
