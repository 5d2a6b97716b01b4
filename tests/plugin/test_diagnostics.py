"""The diagnostics text: all that helps, nothing that concerns only the user."""

import pytest
from qgis.core import Qgis, QgsSettings

from geocfm_qgis import settings
from geocfm_qgis.bundle import plugin_version
from geocfm_qgis.diagnostics import TAIL_LINES, diagnostics_text
from geocfm_qgis.engine_client import Device, EngineUnusable, Handshake, Outcome
from geocfm_qgis.redaction import redacted

NAME = "anna.bergström"


@pytest.fixture
def anna(monkeypatch):
    """A user whose name is easy to find."""
    for name in ("USER", "USERNAME", "LOGNAME"):
        monkeypatch.setenv(name, NAME)
    monkeypatch.setenv("HOME", f"/srv/people/{NAME}")
    monkeypatch.delenv("USERPROFILE", raising=False)


@pytest.fixture
def anna_on_windows(monkeypatch, anna):
    monkeypatch.setenv("USERPROFILE", f"D:\\Konten\\{NAME}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"/srv/people/{NAME}/maps/a.tif", "~/maps/a.tif"),
        ("file:///srv/people/anna.bergstr%C3%B6m/maps", "file://~/maps"),
        (f"'/srv/people/{NAME}'", "'~'"),
        (f"{NAME}: gold_{NAME}_2.tif", "<user>: gold_<user>_2.tif"),
        (f"{NAME.upper()} made it", "<user> made it"),
        ("anna.bergstro\u0308m made it", "<user> made it"),  # as macOS writes it
        ('"anna.bergstr\\u00f6m"', '"<user>"'),
        (f"/srv/people/{NAME}son/a.tif", f"/srv/people/{NAME}son/a.tif"),  # somebody else
        ("/home/colleague/a.tif", "~/a.tif"),
        ("/Users/Some One/x", "~ One/x"),
        ("https://example.org/home/page", "https://example.org/home/page"),
    ],
)
def test_the_user_is_not_told(anna, text, expected):
    assert redacted(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"D:\\Konten\\{NAME}\\maps", "~\\maps"),
        (f"d:/konten/{NAME}/maps", "~/maps"),
        (f"'D:\\\\Konten\\\\{NAME}\\\\maps'", "'~\\\\maps'"),
        ("C:\\Users\\ANNABE~1\\AppData\\Local\\Temp", "~\\AppData\\Local\\Temp"),
        ("C:\\Users\\Anna Berg\\AppData", "~\\AppData"),
        ("c:/users/anna/x", "~/x"),
        ("C:\\\\Users\\\\anna\\\\x", "~\\\\x"),
        ("C:\\OSGeo4W\\apps", "C:\\OSGeo4W\\apps"),
        (f"CORP\\{NAME}", "CORP\\<user>"),
    ],
)
def test_the_user_is_not_told_in_windows_spelling(anna_on_windows, text, expected):
    assert redacted(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://me:s3cret@proxy.corp:8080/x", "http://<removed>@proxy.corp:8080/x"),
        ("https://t0ken@index.corp/simple", "https://<removed>@index.corp/simple"),
        ("HTTP_PROXY: me:s3cret@proxy:8080", "HTTP_PROXY: <removed>@proxy:8080"),
        ("http://me:p@ss@proxy/", "http://<removed>@proxy/"),
        (
            "dbname='geo' user='me' password='a b' host=x",
            "dbname='geo' user=<removed> password=<removed> host=x",
        ),
        (
            r"""user='d\'Arc' password='it\'s "mine"' authcfg=a1b2c3d table="gold" (rast)""",
            """user=<removed> password=<removed> authcfg=<removed> table="gold" (rast)""",
        ),
        (r"{\"password\": \"abc\", \"x\": 1}", r"{\"password\": <removed>, \"x\": 1}"),
        ("PG:dbname=geo user=me password=pw", "PG:dbname=geo user=<removed> password=<removed>"),
        ("MSSQL:server=s;UID=me;PWD=x y", "MSSQL:server=s;UID=<removed>;PWD=<removed> y"),
        ("georaster:me/secret@db,t", "georaster:<removed>@db,t"),
        ("/vsicurl/https://me:pw@host/a.tif", "/vsicurl/https://<removed>@host/a.tif"),
        (
            "contextualWMSLegend=0&url=https%3A%2F%2Fme:pw%40host%2Fx%3Ftoken%3Dabc%26x%3D1",
            "contextualWMSLegend=0&url=https%3A%2F%2F<removed>%40host%2Fx%3Ftoken%3D<removed>%26x%3D1",
        ),
        ("https://b/x.tif?sv=2&sig=ab%2Bc&se=3", "https://b/x.tif?sv=2&sig=<removed>&se=3"),
        (
            "https://b/x?X-Amz-Signature=abc&key=d",
            "https://b/x?X-Amz-Signature=<removed>&key=<removed>",
        ),
        (
            "a.tif|credential:AWS_KEY=abc|option:X=1",
            "a.tif|credential:AWS_KEY=<removed>|option:X=1",
        ),
        ("Authorization: Bearer abc.def", "Authorization: Bearer <removed>"),
        ("a user = 'gold' of the key: gold", "a user = 'gold' of the key: gold"),
        ('{"token": "abc", "x": 1}', '{"token": <removed>, "x": 1}'),
        ("url?api_key=123&x=1", "url?api_key=<removed>&x=1"),
        ("http://proxy.corp:8080 at 12:30", "http://proxy.corp:8080 at 12:30"),
        ("Drawing points, pass 2: done", "Drawing points, pass 2: done"),
    ],
)
def test_passwords_are_not_told(anna, text, expected):
    assert redacted(text) == expected


@pytest.mark.parametrize("name", ["root", "qgis", "a"])
def test_a_name_that_is_a_word_spoils_nothing(monkeypatch, name):
    for variable in ("USER", "USERNAME", "LOGNAME"):
        monkeypatch.setenv(variable, name)
    monkeypatch.setenv("HOME", f"/{name}")
    assert redacted(f"QGIS of a root; /{name}/x") == "QGIS of a root; ~/x"


@pytest.fixture
def a_setting():
    QgsSettings().setValue(f"{settings.PREFIX}/a test", "cuda:1")
    yield
    QgsSettings().remove(f"{settings.PREFIX}/a test")


def test_the_text_tells_versions_engine_and_settings(anna, monkeypatch, a_setting):
    monkeypatch.setenv(settings.PYTHON_VARIABLE, f"/srv/people/{NAME}/env/bin/python")
    monkeypatch.setenv("https_proxy", "http://me:s3cret@proxy:8080")
    told = Handshake({"torch": "2.9.9"}, (Device("cpu", "CPU (2 threads)", 8_000_000_000),))
    text = diagnostics_text(handshake=told)
    assert f"plugin: {plugin_version()}" in text
    assert f"QGIS: {Qgis.QGIS_VERSION}" in text
    assert "Python: ~/env/bin/python (does not exist)" in text
    assert "torch: 2.9.9" in text
    assert "device cpu: CPU (2 threads), 8.0 GB" in text
    assert "a test: cuda:1" in text
    assert "https_proxy: http://<removed>@proxy:8080" in text
    assert NAME not in text


def test_the_text_tells_why_an_engine_is_unusable(anna, monkeypatch):
    monkeypatch.setattr(settings, "engine_python", lambda: "")
    error = EngineUnusable("It is too old.", "Choose another.", f"/srv/people/{NAME}/x: no")
    text = diagnostics_text(handshake=error)
    assert "Python: none chosen" in text
    assert "unusable: It is too old." in text
    assert "~/x: no" in text


def test_the_text_ends_with_transcript_and_log(anna, tmp_path):
    log = tmp_path / "geocfm-error.log"
    log.write_text(f"Traceback\nKeyError: '{NAME}'\n", encoding="utf-8")
    transcript = "\n".join(f"line {number}" for number in range(1000))
    outcome = Outcome("broken", "Sorry.", "Report it.", str(log), (), transcript)
    text = diagnostics_text(outcome)
    assert "status: broken" in text
    assert "message: Sorry." in text
    assert "line 999" in text
    assert f"line {999 - TAIL_LINES}\n" not in text
    assert "KeyError: '<user>'" in text


def test_a_log_that_is_gone_is_no_obstacle():
    text = diagnostics_text(Outcome("broken", log="/nowhere/geocfm.log"))
    assert "cannot be read" in text
