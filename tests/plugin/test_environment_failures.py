import pytest

from geocfm_qgis.environment.failures import explain, is_known, without_passwords

SAID = [  # (what the command printed, a word of the message, a word of the remedy)
    ("OSError: [Errno 28] No space left on device", "full", "another disk"),
    ("OSError: [WinError 112] There is not enough space on the disk", "full", "another disk"),
    (
        "WARNING: Retrying after connection broken by 'ProxyError('Cannot connect to proxy.', "
        "OSError('Tunnel connection failed: 407 Proxy Authentication Required'))'",
        "user name and password",
        "Network",
    ),
    (
        "ProxyError('Cannot connect to proxy.', NewConnectionError('<pip._vendor.urllib3>: Failed "
        "to establish a new connection: [Errno 111] Connection refused'))",
        "proxy could not be reached",
        "address",
    ),
    ("ERROR: Could not install packages: Missing dependencies for SOCKS support.", "SOCKS", "HTTP"),
    (
        "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify "
        "failed: self signed certificate in certificate chain'))",
        "certificate",
        "PIP_CERT",
    ),
    (
        "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError(': "
        "Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')\n"
        "ERROR: Could not find a version that satisfies the requirement torch\n"
        "ERROR: No matching distribution found for torch",
        "could not be reached",
        "folder of wheels",
    ),
    ('ReadTimeoutError("HTTPSConnectionPool: Read timed out.")', "could not be reached", "network"),
    (
        "ERROR: Could not find a version that satisfies the requirement torch==2.13.0 (from "
        "versions: 2.1.0, 2.2.0)\nERROR: No matching distribution found for torch==2.13.0",
        "fitting version",
        "Intel",
    ),
    (
        "ERROR: Package 'scipy' requires a different Python: 3.15.0 not in '>=3.11,<3.15'",
        "fitting version",
        "another Python",
    ),
    (
        "OSError: [WinError 1114] A dynamic link library (DLL) initialization routine failed. "
        'Error loading "C:\\\\geocfm\\\\venv\\\\Lib\\\\site-packages\\\\torch\\\\lib\\\\c10.dll"',
        "library",
        "Visual C++",
    ),
    ("OSError: [WinError 126] The specified module could not be found.", "library", "Visual C++"),
    ("ImportError: DLL load failed while importing _base", "library", "Visual C++"),
    (
        "PermissionError: [WinError 5] Access is denied: 'C:\\\\geocfm\\\\venv\\\\python.exe'",
        "could not be written",
        "virus scanner",
    ),
    (
        "[WinError 32] The process cannot access the file because it is being used by another "
        "process",
        "could not be written",
        "jobs of GeoCFM",
    ),
    (
        "PermissionError: [Errno 13] Permission denied: '/opt/geocfm'",
        "be written",
        "choose another",
    ),
    (
        "OSError: [Errno 2] No such file or directory\nHINT: This error might have occurred since "
        "this system does not have Windows Long Path support enabled.",
        "too long",
        "short path",
    ),
    (
        "The virtual environment was not created successfully because ensurepip is not available.",
        "venv",
        "apt install python3-venv",
    ),
    (
        "error: Failed to install cpython-3.12.16-linux-x86_64-gnu\n  cause: Failed to download "
        "`https://github.com/astral-sh/python-build-standalone/releases/`\n  cause: dns error",
        "standalone Python",
        "python.org",
    ),
    ("ERROR: HTTP error 403 while getting https://x/torch.whl", "refused access", "password"),
    (
        "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM A FILE",
        "damaged",
        "again",
    ),
    ("MemoryError", "memory", "Close"),
]


@pytest.mark.parametrize(("output", "message", "remedy"), SAID)
def test_a_failure_becomes_a_sentence_with_its_remedy(output, message, remedy):
    said = explain(f"Collecting numpy\n{output}\n")
    assert message in said[0]
    assert remedy in said[1]
    assert all(sentence.endswith(".") for sentence in said)
    assert is_known(output)


def test_an_unknown_failure_points_to_the_log():
    assert "log" in explain("something else")[1]
    assert not is_known("Collecting torch==2.13.0\n  Downloading torch (192 MB)")


def test_sizes_and_versions_are_not_mistaken_for_errors():
    """407 may be a number of kilobytes, 126 a part of a version."""
    assert not is_known("Downloading fonttools-4.126.0 (1407 kB)\nDownloading x-1.0 (407 kB)")


def test_passwords_in_addresses_are_hidden():
    text = "Looking in indexes: https://anna:s%40cret@index.example/simple, http://x/y@z"
    hidden = "Looking in indexes: https://***@index.example/simple, http://x/y@z"
    assert without_passwords(text) == hidden
