import os
import subprocess
import sys

import pytest
from qgis.core import QgsNetworkAccessManager, QgsSettings

from geocfm_qgis import child_environment
from geocfm_qgis.bundle import engine_folder
from geocfm_qgis.child_environment import engine_environment, installer_environment, scrubbed

GOES = """
PYTHONHOME PYTHONPATH PYTHONEXECUTABLE PYTHONSTARTUP PYTHONUSERBASE PYTHONPLATLIBDIR PYTHONWARNINGS
PYTHONNOUSERSITE PYTHONSAFEPATH PYTHONPYCACHEPREFIX PYTHONINSPECT PYTHONBREAKPOINT PYTHONOPTIMIZE
__PYVENV_LAUNCHER__ VIRTUAL_ENV VIRTUAL_ENV_PROMPT PYENV_VERSION CONDA_PREFIX CONDA_DEFAULT_ENV
CONDA_PYTHON_EXE CONDA_SHLVL _CONDA_ROOT _CE_CONDA MAMBA_ROOT_PREFIX UV_PYTHON UV_SYSTEM_PYTHON
UV_PROJECT_ENVIRONMENT UV_PYTHON_INSTALL_DIR
PIP_TARGET PIP_PREFIX PIP_ROOT PIP_USER PIP_SRC PIP_PYTHON PIP_PYTHON_VERSION PIP_PLATFORM PIP_ABI
PIP_REQUIRE_VIRTUALENV PIP_CONSTRAINT PIP_REQUIREMENT PIP_NO_DEPS PIP_DRY_RUN pip_target
GDAL_DATA GDAL_DRIVER_PATH GDAL_PAM_ENABLED GDAL_SKIP GDAL_CONFIG_FILE OGR_DRIVER_PATH
OGR_SKIP PROJ_LIB PROJ_DATA PROJ_NETWORK GEOTIFF_CSV PDAL_DRIVER_PATH GRASS_PREFIX GISBASE SAGA
QGIS_PREFIX_PATH QGIS_PLUGINPATH QGIS_CUSTOM_CONFIG_PATH QGISPYTHONPATH QT_PLUGIN_PATH
QT_QPA_PLATFORM QT_QPA_PLATFORM_PLUGIN_PATH QTDIR QML2_IMPORT_PATH OSGEO4W_ROOT O4W_QT_PREFIX
O4W_QT_LIBRARIES MPLBACKEND TCL_LIBRARY TK_LIBRARY
LD_LIBRARY_PATH LD_PRELOAD LD_AUDIT DYLD_LIBRARY_PATH DYLD_INSERT_LIBRARIES DYLD_FRAMEWORK_PATH
DYLD_FALLBACK_LIBRARY_PATH
"""

STAYS = """
HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy GDAL_HTTP_PROXY
GDAL_HTTP_PROXYUSERPWD
PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_CONFIG_FILE PIP_FIND_LINKS PIP_NO_INDEX PIP_TRUSTED_HOST
PIP_PROXY PIP_CLIENT_CERT PIP_DEFAULT_TIMEOUT PIP_RETRIES PIP_CACHE_DIR PIP_KEYRING_PROVIDER
UV_INDEX_URL UV_DEFAULT_INDEX UV_PYTHON_INSTALL_MIRROR UV_NATIVE_TLS
CUDA_VISIBLE_DEVICES CUDA_HOME NVIDIA_VISIBLE_DEVICES OMP_NUM_THREADS MKL_NUM_THREADS
PYTORCH_ENABLE_MPS_FALLBACK HOME USERPROFILE APPDATA LOCALAPPDATA TEMP TMP TMPDIR SystemRoot WINDIR
COMSPEC PATHEXT LANG LC_ALL TZ DISPLAY XDG_DATA_HOME PROGRAMFILES GEOCFM_PYTHON PYENV_ROOT
PROJECT_NAME LDAP_SERVER PATH
"""


@pytest.mark.parametrize("name", GOES.split())
def test_what_leads_to_qgis_goes(name):
    assert scrubbed({name: "/usr/share/qgis", "KEPT": "1"}) == {"KEPT": "1"}


@pytest.mark.parametrize("name", STAYS.split())
def test_what_is_the_users_stays(name):
    assert scrubbed({name: "as it was"}) == {name: "as it was"}


@pytest.mark.parametrize("name", child_environment.CERTIFICATES)
def test_certificates_stay_unless_they_are_qgis_own_or_gone(name, tmp_path):
    qgis, company = tmp_path / "QGIS 3.44", tmp_path / "company"
    for folder in (qgis, company):
        folder.mkdir()
        (folder / "ca.pem").write_text("certificate")
    folders = (str(qgis),)
    assert name in scrubbed({name: str(company / "ca.pem")}, folders)
    assert name not in scrubbed({name: str(qgis / "ca.pem")}, folders)
    assert name not in scrubbed({name: str(company / "moved.pem")}, folders)
    both = os.pathsep.join([str(qgis), str(company)])
    assert name in scrubbed({name: both}, folders)


def test_the_path_loses_the_folders_of_qgis_only(tmp_path):
    qgis = str(tmp_path / "QGIS 3.44")
    inside = [qgis, os.path.join(qgis, "bin"), os.path.join(qgis, "apps", "Qt5", "bin")]
    outside = [qgis + " tools", str(tmp_path / "Windows"), "/usr/bin"]
    path = os.pathsep.join([inside[0], outside[0], inside[1], outside[1], inside[2], outside[2]])
    assert scrubbed({"Path": path}, (qgis,))["Path"] == os.pathsep.join(outside)


def test_nothing_is_changed_in_place():
    variables = {"PYTHONHOME": "/qgis", "PATH": "/qgis/bin:/bin"}
    scrubbed(variables, ("/qgis",))
    assert variables == {"PYTHONHOME": "/qgis", "PATH": "/qgis/bin:/bin"}


def test_on_linux_the_systems_folders_are_not_taken_for_those_of_qgis():
    assert child_environment.qgis_folders() == ()


def test_the_engine_comes_from_the_plugin():
    variables = engine_environment({"PYTHONPATH": "/qgis/python", "PYTHONHOME": "/qgis", "A": "b"})
    assert variables["PYTHONPATH"] == str(engine_folder())
    assert "PYTHONHOME" not in variables
    assert variables["A"] == "b"
    manners = {"PYTHONSAFEPATH": "1", "PYTHONNOUSERSITE": "1", "PYTHONUTF8": "1"}
    assert {name: variables[name] for name in manners} == manners


def test_the_engine_uses_the_bytecode_that_lies_beside_its_packages():
    variables = engine_environment({"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": "/tmp"})
    assert "PYTHONPYCACHEPREFIX" not in variables  # else PyTorch is compiled once more
    assert "PYTHONDONTWRITEBYTECODE" not in variables


def test_a_real_child_imports_the_engine_from_there(engine_python):
    code = "import geocfm, sys; print(geocfm.__file__); print(sys.flags.utf8_mode)"
    answer = subprocess.run(
        [engine_python, "-c", code],
        env=engine_environment(python=engine_python),
        capture_output=True,
        text=True,
        check=True,
    )
    file, utf8 = answer.stdout.splitlines()
    assert file.startswith(str(engine_folder()))
    assert utf8 == "1"


def test_pip_gets_no_path_to_the_engine():
    variables = installer_environment({"PYTHONPATH": "/qgis"}, proxy="")
    assert "PYTHONPATH" not in variables
    assert variables["PIP_NO_INPUT"] == "1"


def test_a_python_of_conda_on_windows_finds_its_libraries(tmp_path, monkeypatch):
    monkeypatch.setattr(child_environment, "IS_WINDOWS", True)
    (tmp_path / "conda-meta").mkdir()
    variables = engine_environment({"PATH": "/bin"}, python=str(tmp_path / "python.exe"))
    assert variables["PATH"].split(os.pathsep)[0] == str(tmp_path)
    assert variables["PATH"].endswith(os.path.join("Library", "bin") + os.pathsep + "/bin")
    assert engine_environment({"PATH": "/bin"}, python="/usr/bin/python3")["PATH"] == "/bin"


@pytest.fixture
def proxy_of_qgis(own_settings):
    """Set a proxy in QGIS's network settings, as its options do."""
    manager = QgsNetworkAccessManager.instance()

    def set_proxy(**values):
        settings = QgsSettings()
        for name, value in values.items():
            settings.setValue(f"proxy/{name}", value)
        manager.setupDefaultProxyAndCache()

    yield set_proxy
    set_proxy(proxyEnabled=False, proxyExcludedUrls=[], noProxyUrls=[])


def test_the_proxy_of_qgis_reaches_pip(proxy_of_qgis):
    proxy_of_qgis(
        proxyEnabled=True,
        proxyHost="proxy.mine.example",
        proxyPort="8080",
        proxyUser="anna",
        proxyPassword="a/b@c",
        proxyType="HttpProxy",
    )
    variables = installer_environment({"https_proxy": "http://old:1"})
    for name in ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "PIP_PROXY"):
        assert variables[name] == "http://anna:a%2Fb%40c@proxy.mine.example:8080"


def test_without_a_proxy_in_qgis_the_users_own_stays(proxy_of_qgis):
    proxy_of_qgis(proxyEnabled=False)
    assert installer_environment({"https_proxy": "http://own:1"})["https_proxy"] == "http://own:1"


def test_a_proxy_that_is_entered_outweighs_the_others(proxy_of_qgis):
    proxy_of_qgis(proxyEnabled=True, proxyHost="qgis.example", proxyType="HttpProxy")
    variables = installer_environment({}, proxy="http://entered.example:3128")
    assert variables["HTTPS_PROXY"] == "http://entered.example:3128"


def test_what_qgis_reaches_without_the_proxy_pip_does_too(proxy_of_qgis):
    proxy_of_qgis(
        proxyEnabled=True,
        proxyHost="proxy.example",
        proxyType="HttpProxy",
        proxyExcludedUrls=["https://wheels.mine.example/simple", "intranet:8080"],
        noProxyUrls=["http://10.0.0.7/"],
    )
    variables = installer_environment({"NO_PROXY": "localhost, 10.0.0.7"})
    assert variables["NO_PROXY"] == "localhost,10.0.0.7,wheels.mine.example,intranet"
    assert variables["no_proxy"] == variables["NO_PROXY"]
    assert "NO_PROXY" not in installer_environment({}, proxy="")


def test_a_child_has_a_group_of_its_own():
    options = child_environment.popen_options()
    with subprocess.Popen(
        [sys.executable, "-c", "import os; print(os.getpgid(0))"],
        stdout=subprocess.PIPE,
        text=True,
        **options,
    ) as child:
        group = int(child.communicate()[0])
    assert group != os.getpgid(0)
