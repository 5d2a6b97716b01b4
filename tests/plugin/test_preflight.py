"""The pre-flight check: what we see ourselves, what the engine says, and when it is asked."""

import pytest
from fake_engine_fixture import fake_python, noted_pids
from panel_support import OpenPanel, wait_until
from qgis.PyQt.QtWidgets import QApplication

from geocfm_qgis import settings
from geocfm_qgis.bundle import resources_folder
from geocfm_qgis.panel import preflight as module
from geocfm_qgis.panel.preflight_view import PreflightView

EXAMPLE = str(resources_folder() / "checkpoints" / "murchison_gold.safetensors")


@pytest.fixture
def started(tmp_path):
    """Where the fake engine notes its process ids: one for the handshake, one per check."""
    return tmp_path / "pids"


@pytest.fixture
def open_panel(sample_project, tmp_path, started):
    opened = []

    def make(behaviour="succeed", **variables):
        python = fake_python(tmp_path / behaviour, behaviour, GEOCFM_FAKE_PIDS=started, **variables)
        opened.append(OpenPanel(python, tmp_path / "results"))
        assert wait_until(lambda: opened[-1].panel.engine.devices)
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def count(started):
    return len(started.read_text().split()) if started.exists() else 0


def test_nothing_is_asked_while_something_is_missing(open_panel, started):
    opened = open_panel()
    report = opened.panel.preflight.report
    assert not report.can_run
    assert report.problems
    assert not wait_until(lambda: count(started) > 1, 1.2)
    assert not opened.find("runButton").isEnabled()
    assert opened.find("runButton").toolTip() == "\n".join(report.problems)


def test_the_engine_is_asked_once_the_choices_have_settled(open_panel, started):
    opened = open_panel()
    opened.tick_all()
    wait_until(lambda: False, 0.05)
    for minutes in (3, 4, 6):
        opened.find("minutesSpin").setValue(minutes)
        wait_until(lambda: False, 0.2)
        assert opened.panel.preflight.report.status == module.PENDING
        assert not opened.find("runButton").isEnabled()
    opened.wait_until_checked()
    assert count(started) == 2
    report = opened.panel.preflight.report
    assert report.notes[0].startswith("The grid has 804 rows")
    assert "“One per cell”" in report.warnings[0]  # not --deduplicate
    assert opened.find("summaryLabel").text() == (
        "Train for 6 minutes (3 networks) on 4 layers and 255 occurrences, then map 804 x 660 "
        "cells, tell how uncertain it is, rank up to 20 targets, draw 4 x 500 points and "
        "evaluate the model."
    )
    assert opened.find("runButton").isEnabled()


def test_what_was_asked_before_is_known(open_panel, started):
    opened = open_panel()
    opened.tick_all()
    opened.wait_until_checked()
    opened.find("windowSpin").setValue(64)
    assert wait_until(lambda: count(started) == 3)
    opened.wait_until_checked()
    opened.find("windowSpin").setValue(0)
    opened.wait_until_checked()
    opened.find("nameEdit").setText("another name")  # the data are the same
    opened.wait_until_checked()
    assert count(started) == 3


def test_a_check_under_way_is_given_up_when_something_changes(open_panel, started):
    opened = open_panel(GEOCFM_FAKE_SECONDS="0.3")
    opened.tick_all()
    assert wait_until(lambda: count(started) == 2)
    pid = noted_pids(started, 2)[1]
    opened.find("noneButton").click()
    from fake_engine_fixture import is_gone

    assert wait_until(lambda: is_gone(pid, within=0), 3)
    assert opened.panel.preflight.report.status == module.BLOCKED


def test_a_rehearsal_says_what_is_wrong_with_a_loaded_model(open_panel):
    opened = open_panel()
    opened.find("loadRadio").setChecked(True)
    opened.panel.model.use_checkpoint(EXAMPLE)
    opened.wait_until_checked()
    assert opened.find("summaryLabel").text().startswith("With the model murchison_gold")


def test_the_engines_refusal_is_shown_with_its_remedy(open_panel, tmp_path):
    opened = open_panel()
    settings.set_engine_python(fake_python(tmp_path / "failing", "fail"))
    opened.tick_all()
    assert wait_until(
        lambda: any("90 GB of memory" in each for each in opened.panel.report.sentences())
    )
    said = " ".join(opened.panel.report.sentences())
    assert "a smaller “Window”" in said
    assert not opened.find("runButton").isEnabled()


def test_a_check_that_breaks_says_so_and_is_asked_again(open_panel, tmp_path, started):
    opened = open_panel()
    settings.set_engine_python(fake_python(tmp_path / "crashing", "crash"))
    opened.tick_all()
    report = opened.panel.preflight
    assert wait_until(lambda: report.report.transcript)
    assert report.report.problems == ()
    assert "could not be checked" in opened.find("summaryLabel").text()
    assert "run it all the same" in opened.find("summaryLabel").text()
    assert any("The engine ended unexpectedly" in each for each in opened.panel.report.sentences())
    opened.find("checkDiagnosticsButton").click()
    assert "no luck" in QApplication.clipboard().text()
    settings.set_engine_python(fake_python(tmp_path / "well"))
    opened.panel.refresh()
    opened.wait_until_checked()
    assert report.report.status == module.READY


def test_what_could_not_be_checked_can_be_run(open_panel, tmp_path):
    opened = open_panel()
    settings.set_engine_python(fake_python(tmp_path / "crashing", "crash"))
    opened.tick_all()
    assert wait_until(lambda: opened.panel.preflight.report.transcript)
    assert opened.find("runButton").isEnabled()
    fake_python(tmp_path / "crashing", "succeed")  # the same program behaves otherwise now
    opened.find("runButton").click()
    assert opened.queue.current is not None
    opened.wait_until_ended()
    assert opened.find("endSentence").text().startswith("Finished in ")


def test_an_engine_that_does_not_start_keeps_run_disabled(open_panel, tmp_path):
    opened = open_panel()
    settings.set_engine_python(fake_python(tmp_path / "unable", "import_error"))
    opened.tick_all()
    assert wait_until(lambda: opened.panel.preflight.report.problems)
    assert not opened.find("runButton").isEnabled()


@pytest.mark.parametrize("where", ["task", "plan"])
def test_a_mistake_of_ours_is_said(open_panel, monkeypatch, where):
    """One while a run is planned leaves none to start; one while it is checked does not."""

    def mistaken(*_):
        raise ZeroDivisionError("ours")

    opened = open_panel()
    if where == "task":
        monkeypatch.setattr(module.PreflightTask, "work", mistaken)
    else:
        monkeypatch.setattr(module.plan, "make_run", mistaken)
    opened.tick_all()
    assert wait_until(lambda: opened.panel.preflight.report.transcript)
    said = opened.panel.report.sentences()
    assert any("made a mistake" in each and "ZeroDivisionError: ours" in each for each in said)
    assert opened.find("runButton").isEnabled() == (where == "task")


def test_the_view_sorts_what_is_wrong_before_what_is_worth_a_look(qgis_app):
    view = PreflightView()
    report = module.PreflightReport(
        module.BLOCKED, ("A <b> is wrong.",), ("Look at B.",), ("C & D.",)
    )
    view.show_report(report, "Train.")
    assert view.sentences() == ["A <b> is wrong.", "Look at B."]
    assert view.summaryLabel.text() == "Before it can run:"
    assert not view.detailsButton.isHidden()
    assert view.detailsLabel.isHidden()
    view.detailsButton.click()
    assert not view.detailsLabel.isHidden()
    assert "C &amp; D." in view.detailsLabel.text()
    view.show_report(report, "Train.", briefly=True)
    assert view.sentences() == ["A <b> is wrong."]
    assert view.detailsButton.isHidden()
    view.show_report(module.PreflightReport(module.READY), "Train.")
    assert view.sentences() == []
    assert view.summaryLabel.text() == "Train."
    assert view.detailsButton.isHidden()
    assert view.detailsLabel.isHidden()
