"""The fourth step: what to make of the model, under which name, and where."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import date

from qgis.gui import QgsFileWidget
from qgis.PyQt.QtWidgets import QCheckBox

from ..bundle import load_form
from ..translation import tr
from . import result_files
from .choices import STANDARD_FOLDER, ResultChoices
from .product_row import ProductRow, file_name_edit
from .products import TARGETS, WITH_LOADED_MODEL, WITH_NEW_MODEL, all_products
from .step import READY, TO_DO, WRONG, Step, StepState

NUMBERED = re.compile(r" \(\d+\)$")
IN_A_FOLDER, TEMPORARY = 0, 1  # rows of the combo box
STANDARD_MODEL = "model" + result_files.MODEL_SUFFIX


class ResultsStep(Step):
    """A list of products that grows with products.py, the run's name, and its folder."""

    def __init__(self, project, parent=None):
        super().__init__(parent)
        self.project = project
        self.training = True
        self._subject = ""
        self._has_occurrences = True
        self._own_name = ""  # what the last run was called by its user
        self._taken = set()  # folders of runs that wait or are at work
        self._avoided = set()  # folders with unfinished work that this run could not go on with
        self._tried = "", True  # a folder, and whether it can be written to
        self._ticked = {}  # by whether a model is trained: the products that were ticked
        load_form("results_step", self)
        self._add_model_row()
        self.rows = [ProductRow(each, self.productsLayout) for each in all_products()]
        self.folderFile.setStorageMode(QgsFileWidget.StorageMode.GetDirectory)
        self.folderFile.lineEdit().setPlaceholderText(result_files.default_folder(project))
        for row in self.rows:
            row.tick.setChecked(WITH_NEW_MODEL in row.product.default_for)
            row.changed.connect(self._on_change)
        self.model_edit.textChanged.connect(self._on_change)
        self.nameEdit.textChanged.connect(self._on_change)
        self.placeCombo.currentIndexChanged.connect(self._on_change)
        self.folderFile.fileChanged.connect(self._on_change)
        self.overwriteCheck.toggled.connect(self.changed)
        project.homePathChanged.connect(self.look_at_place)
        project.projectSaved.connect(self.look_at_place)  # a script's "write" says only this
        self.refresh()

    def choices(self):
        """Give the ResultChoices."""
        found = (row.choice() for row in self.rows)
        return ResultChoices(
            name=self.nameEdit.text().strip() or self.nameEdit.placeholderText(),
            folder=self._folder(),
            model_file=result_files.with_suffix(
                self.model_edit.text() or STANDARD_MODEL, result_files.MODEL_SUFFIX
            ),
            products=tuple(choice for choice in found if choice is not None),
            overwrite=self.overwriteCheck.isChecked() and not self.overwriteCheck.isHidden(),
        )

    def choices_to_keep(self):
        """Give the ResultChoices for the project file: what was not chosen stays open."""
        by_itself = self.placeCombo.currentIndex() == IN_A_FOLDER and not self._own_folder()
        chosen = self.choices()
        return replace(
            chosen,
            name=self.nameEdit.text().strip(),
            folder=STANDARD_FOLDER if by_itself else chosen.folder,
        )

    def set_choices(self, choices):
        """Show these ResultChoices."""
        standard_name = choices.name in ("", self.nameEdit.placeholderText())
        self.nameEdit.setText("" if standard_name else choices.name)
        standard_model = choices.model_file == STANDARD_MODEL
        self.model_edit.setText("" if standard_model else choices.model_file)
        self.placeCombo.setCurrentIndex(IN_A_FOLDER if choices.folder else TEMPORARY)
        standard = (STANDARD_FOLDER, result_files.default_folder(self.project))
        self.folderFile.setFilePath("" if choices.folder in standard else choices.folder)
        wanted = {each.key: each for each in choices.products}
        for row in self.rows:
            row.set_choice(wanted.get(row.product.key))
        self.refresh()
        self.overwriteCheck.setChecked(choices.overwrite)

    def take_free_name(self):
        """Keep what is there: change a name whose results are there already."""
        self.begin_afresh()
        own = self.nameEdit.text().strip()
        self.nameEdit.setText(self._free_name(NUMBERED.sub("", own)) if own else "")

    def make_ready_for_next(self):
        """Go on from a name that was typed, now that its run has begun: proposed, not typed."""
        own = self.nameEdit.text().strip()
        self.begin_afresh()
        if own:
            self._own_name = NUMBERED.sub("", own)
            self.nameEdit.clear()

    def begin_afresh(self):
        """Replace nothing more: that was said of one run."""
        self.overwriteCheck.setChecked(False)

    def avoid_name(self):
        """Propose another name than this one; tell whether that is ours to do."""
        if self.nameEdit.text().strip():
            return False
        self._avoided.add(os.path.normcase(result_files.run_folder(self.choices())))
        self.refresh()
        return True

    def allow_names(self):
        """Propose again the names that were avoided."""
        self._avoided.clear()
        self.refresh()

    def reset(self):
        """Show what a new project begins with."""
        for edit in (self.nameEdit, self.model_edit, *(row.file_edit for row in self.rows)):
            edit.clear()
        self.placeCombo.setCurrentIndex(IN_A_FOLDER)
        self.folderFile.setFilePath("")
        self._ticked = {}
        self._own_name = ""
        self._tick_products()
        self.begin_afresh()
        self.refresh()

    def set_subject(self, subject, training, has_occurrences):
        """Take in what the other steps decide: the run's subject, and what can be made."""
        if training != self.training:
            self._ticked[self.training] = {row for row in self.rows if row.tick.isChecked()}
            self.training = training
            self._tick_products()
        if subject != self._subject:
            self._own_name = ""
        self._subject = subject
        self._has_occurrences = has_occurrences
        self.refresh()

    def set_taken(self, folders):
        """Take in the folders that runs in the queue will write to."""
        self._taken = {os.path.normcase(folder) for folder in folders}
        self.refresh()

    def refresh(self):
        """Look at the disk again: is the name still free, is something there to be replaced?"""
        self.folderFile.lineEdit().setPlaceholderText(result_files.default_folder(self.project))
        self._relate_rows()
        self._model_tick.setVisible(self.training)
        self.model_edit.setVisible(self.training)
        self.folderFile.setVisible(self.placeCombo.currentIndex() == IN_A_FOLDER)
        usual = f"{self._subject or 'GeoCFM'} {date.today().isoformat()}"
        self.nameEdit.setPlaceholderText(self._free_name(self._own_name or usual))
        paths = self.output_paths()
        there, leftover = result_files.existing(paths), result_files.interrupted(paths)
        self.overwriteCheck.setVisible(bool(there) or leftover)
        self.overwriteSentence.setVisible(bool(there) or leftover)
        if there and not leftover:
            names = ", ".join(os.path.basename(path) for path in there)
            sentence = tr("Already there under this name: {names}.").format(names=names)
        else:
            sentence = tr(
                "An interrupted run of this name is there. It goes on where it stopped if its "
                "inputs and settings are the same; tick this to begin anew."
            )
        self.overwriteSentence.setText(sentence)

    def look_at_place(self):
        """Take in that results would lie elsewhere: with the project, or by QGIS's options."""
        shown = self.folderFile.lineEdit().placeholderText()
        if shown != result_files.default_folder(self.project):
            self._on_change()

    def output_paths(self):
        """Give all that the run would write."""
        return result_files.output_paths(self.choices(), self.training)

    def state(self):
        """Give how many products are made, and where."""
        problems = self.problems()
        if problems:
            only_missing = not self.choices().products and not self.training
            return StepState(TO_DO if only_missing else WRONG, problems[0].partition(".")[0])
        titles = [row.product.title for row in self.rows if row.choice()]
        if self.training:
            titles.insert(0, tr("Model"))
        return StepState(READY, ", ".join(titles))

    def problems(self):
        """Give what keeps the results from being written."""
        choices = self.choices()
        found = []
        if not choices.products and not self.training:
            found.append(tr("Nothing is to be made. Tick what you want in the Results step."))
        if self._lacks_known(choices):
            found.append(
                tr(
                    "Targets away from known occurrences need to know where these are. Choose them "
                    "in the Occurrences step, or set the distance to 0 in the Results step."
                )
            )
        paths = [os.path.normcase(path) for path in self.output_paths()]
        if len(set(paths)) < len(paths):
            found.append(tr("Two results have the same name of file. Change one of them."))
        if os.path.normcase(result_files.run_folder(choices)) in self._taken:
            found.append(
                tr(
                    "A run named '{name}' waits or is at work already. Give this one another name."
                ).format(name=choices.name)
            )
        # what an interrupted run has finished is part of it: whether it can go on, the engine says
        there = result_files.existing(self.output_paths())
        if there and not choices.overwrite and not result_files.interrupted(self.output_paths()):
            found.append(
                tr(
                    "There are results of the name '{name}' already. Choose another name, or tick "
                    "'Replace results that are there'."
                ).format(name=choices.name)
            )
        if choices.folder and not os.path.isabs(choices.folder):
            found.append(
                tr("'{folder}' is no whole path of a folder. Choose the folder anew.").format(
                    folder=choices.folder
                )
            )
        elif not self._can_write(result_files.run_folder(choices)):
            found.append(
                tr(
                    "Results cannot be written to {folder}. Choose another folder in the Results "
                    "step."
                ).format(folder=result_files.run_folder(choices))
            )
        return found

    def _relate_rows(self):
        """Grey out what lacks occurrences, or the product that it is made from."""
        wanted = {row.product.key for row in self.rows if row.tick.isChecked()}
        for row in self.rows:
            made_from = row.product.needs
            if row.product.needs_occurrences and not self._has_occurrences:
                why = tr("This needs occurrences: choose them in the Occurrences step.")
                row.set_possible(False, why)
            elif made_from and made_from not in wanted:
                row.set_possible(False, tr("This is made from the prospectivity raster: tick it."))
            else:
                row.set_possible(True)

    def _add_model_row(self):
        self._model_tick = QCheckBox(tr("Trained model"))
        self._model_tick.setChecked(True)
        self._model_tick.setEnabled(False)
        self._model_tick.setToolTip(tr("A new model is always kept: all other results need it."))
        self.model_edit = file_name_edit(STANDARD_MODEL)
        self.model_edit.setObjectName("modelFile")
        self.productsLayout.addWidget(self._model_tick, 0, 0)
        self.productsLayout.addWidget(self.model_edit, 0, 1)

    def _lacks_known(self, choices):
        targets = next((each for each in choices.products if each.key == TARGETS), None)
        wants_distance = targets is not None and bool(targets.options.get("exclude"))
        return wants_distance and not self._has_occurrences

    def _can_write(self, folder):
        """Asked again and again, it is tried once for each folder: a network may be slow."""
        if folder != self._tried[0]:
            self._tried = folder, result_files.is_writable(folder)
        return self._tried[1]

    def _tick_products(self):
        """As they were when it was last this way, or as most people want them."""
        way = WITH_NEW_MODEL if self.training else WITH_LOADED_MODEL
        usual = {row for row in self.rows if way in row.product.default_for}
        ticked = self._ticked.get(self.training, usual)
        for row in self.rows:
            row.tick.setChecked(row in ticked)

    def _folder(self):
        if self.placeCombo.currentIndex() == TEMPORARY:
            return ""
        return self._own_folder() or result_files.default_folder(self.project)

    def _own_folder(self):
        return os.path.expanduser(self.folderFile.filePath().strip())

    def _free_name(self, wanted):
        """The name, with a number when a run of that name is there or waits."""
        number, name = 1, wanted
        while self._is_used(name):
            number += 1
            name = f"{wanted} ({number})"
        return name

    def _is_used(self, name):
        results = ResultChoices(
            name=name,
            folder=self._folder(),
            model_file=self.model_edit.text() or STANDARD_MODEL,
            products=self.choices().products,
        )
        folder = os.path.normcase(result_files.run_folder(results))
        outputs = result_files.output_paths(results, self.training)
        is_done = result_files.existing(outputs) and not result_files.interrupted(outputs)
        return folder in self._taken | self._avoided or bool(is_done)

    def _on_change(self):
        self.refresh()
        self.changed.emit()
