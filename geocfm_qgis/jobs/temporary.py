"""Names of temporary files, which QGIS removes as it closes."""

import hashlib
import os

from qgis.core import QgsProcessingUtils


def temporary_path(name):
    """Give a path of this name in a temporary folder of its own."""
    return QgsProcessingUtils.generateTempFilename(name)


def path_by_content(name, content):
    """Give the same temporary path of this name for the same content, a text or bytes.

    An interrupted job goes on only with the very same inputs, so what is written for it once must
    be found again.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    digest = hashlib.sha256(data).hexdigest()[:32]
    folder = os.path.join(QgsProcessingUtils.tempFolder(), "geocfm_inputs", digest)
    return os.path.join(folder, name)
