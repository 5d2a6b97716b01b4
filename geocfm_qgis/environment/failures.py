"""What pip, venv and uv say when they fail, as a sentence with its remedy."""

import re

from ..translation import tr


def _known_failures():
    """Give (pattern, message, remedy), the most telling first; translated when they are needed."""
    return (
        (
            r"No space left on device|\[Errno 28\]|WinError 112\b|not enough space on the disk"
            r"|Disk quota exceeded|\[Errno 122\]",
            tr("The disk is full."),
            tr("Make room, or choose a folder on another disk, and try again."),
        ),
        (
            r"Proxy Authentication Required|(failed|error|status|code):? 407\b",
            tr("The proxy asks for a user name and password."),
            tr(
                "Enter them under Settings > Options > Network, or below as "
                "http://user:password@host:port."
            ),
        ),
        (
            r"Missing dependencies for SOCKS support",
            tr("pip cannot use a SOCKS proxy here."),
            tr("Enter the address of an HTTP proxy below, or install from a folder of wheels."),
        ),
        (
            r"ProxyError|Cannot connect to proxy|Tunnel connection failed|tunnel error",
            tr("The proxy could not be reached, or refused the connection."),
            tr("Check its address in Settings > Options > Network, or enter another one below."),
        ),
        (
            r"CERTIFICATE_VERIFY_FAILED|SSLCertVerificationError|SSLError|certificate verify failed"
            r"|invalid peer certificate|UnknownIssuer",
            tr("The certificate of the package index was not accepted."),
            tr(
                "Many companies inspect encrypted traffic with a certificate of their own: ask for "
                "its file (.pem), let the variable PIP_CERT name it, and start QGIS anew."
            ),
        ),
        (
            r"WinError 1114|WinError 126|DLL load failed|c10\.dll|fbgemm\.dll|vcruntime|VCRUNTIME",
            tr("Windows could not load a library of PyTorch or of another package."),
            tr(
                "Install the Microsoft Visual C++ Redistributable (x64) from Microsoft, start the "
                "computer anew, and press Repair."
            ),
        ),
        (
            r"Windows Long Path support|WinError 206|filename or extension is too long",
            tr("The path of the folder is too long for Windows."),
            tr("Choose a folder with a short path, such as C:\\geocfm."),
        ),
        (
            r"ensurepip is not available|No module named '?(ensurepip|venv)",
            tr("This Python cannot make environments: its module venv is missing."),
            tr(
                "On Debian and Ubuntu the command sudo apt install python3-venv brings it. Or "
                "choose another Python."
            ),
        ),
        (
            r"WinError 5\b|WinError 32\b|\[Errno 13\]|Permission denied|Access is denied"
            r"|Operation not permitted|being used by another process",
            tr("A file could not be written."),
            tr(
                "A virus scanner or a running job may hold it: end the jobs of GeoCFM, let the "
                "scanner pass the folder or choose another one, and try again."
            ),
        ),
        (
            r"\b(401 Client Error|403 Client Error)|\b401\b.*Unauthorized|HTTP error 40[13]\b",
            tr("The package index refused access."),
            tr("Check its address, and the user name and password in it, below."),
        ),
        (
            r"python-build-standalone",
            tr("The standalone Python could not be downloaded."),
            tr(
                "Check the network and the proxy; or install Python 3.12 from python.org or with "
                "the software manager of your system, then search again."
            ),
        ),
        (
            # before the missing version: without a network pip says that as well
            r"NewConnectionError|NameResolutionError|getaddrinfo failed|Name or service not known"
            r"|Temporary failure in name resolution|Network is unreachable|Connection refused"
            r"|ConnectTimeout|ReadTimeout|Read timed out|Max retries exceeded|ConnectionResetError"
            r"|Connection aborted|IncompleteRead|No route to host|WinError 100(51|53|54|60|61)\b"
            r"|nodename nor servname|Could not connect|dns error|error sending request",
            tr("The package index could not be reached."),
            tr(
                "Check the network. Behind a proxy, or with an index of your own, enter its "
                "address below; without a network, install from a folder of wheels."
            ),
        ),
        (
            r"THESE PACKAGES DO NOT MATCH THE HASHES|Hashes are required|BadZipFile|has an invalid "
            r"wheel|is invalid\.$|Wheel .* is invalid",
            tr("A downloaded package was damaged."),
            tr("Try again; if it happens once more, ask who runs the proxy or the package index."),
        ),
        (
            r"No matching distribution found|Could not find a version that satisfies"
            r"|ResolutionImpossible|requires a different Python|is not a supported wheel",
            tr("A package does not come in a fitting version for this Python and computer."),
            tr(
                "Choose another Python (3.11 and 3.12 are served best). A folder of wheels must "
                "hold all packages, made for this Python. On Macs with an Intel processor, PyTorch "
                "has no new versions."
            ),
        ),
        (
            r"MemoryError|Cannot allocate memory|WinError 1455|paging file is too small",
            tr("The computer ran out of memory."),
            tr("Close other programs and try again."),
        ),
    )


def explain(output):
    """Give (message, remedy) for what a failed command printed."""
    for pattern, message, remedy in _known_failures():
        if re.search(pattern, output, re.MULTILINE):
            return message, remedy
    return (
        tr("The installation did not succeed."),
        tr("The log below says why; copy it when you ask for help."),
    )


def is_known(output):
    """Tell whether explain() would recognise the failure."""
    return any(re.search(known[0], output, re.MULTILINE) for known in _known_failures())


def without_passwords(text):
    """Give a text without the names and passwords in its web addresses."""
    return re.sub(r"(\w+://)[^/\s@]+@", r"\1***@", text)
