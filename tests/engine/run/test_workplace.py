"""What is said when the place of the work is gone, whatever noticed it first."""

from pathlib import Path

import pytest
from geocfm.errors import Interrupted, UserError
from geocfm.geo.writing import replace_file
from geocfm.run.workplace import explained


def noticed_by_the_rename(folder: Path) -> Exception:
    with pytest.raises(Interrupted, match="cannot be written") as found:
        replace_file(folder / "unfinished.tmp", folder / "part.npz")
    return found.value


@pytest.mark.parametrize(
    "notice",
    [noticed_by_the_rename, lambda folder: FileNotFoundError(), lambda folder: UserError("?", "")],
)
def test_a_vanished_folder_is_named_whatever_noticed_it(notice, tmp_path: Path) -> None:
    folder = tmp_path / "stick" / ".map.tif.work"
    said = explained(notice(folder), folder)
    assert isinstance(said, Interrupted)
    assert f"{folder.parent} vanished" in said.message


def test_while_the_folder_is_there_a_sentence_stays_as_it_is(tmp_path: Path) -> None:
    error = noticed_by_the_rename(tmp_path)
    assert explained(error, tmp_path) is error
