<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="de" sourcelanguage="en">
<context>
    <name>GeoCFM</name>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source> cells</source>
        <translation> Zellen</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source> folds</source>
        <translation> Gruppen</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source> min</source>
        <translation> min</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/engine_algorithm.py"/>
        <source> or </source>
        <translation> oder </translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>% of area</source>
        <translation>% der Fläche</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/results_step.py"/>
        <source>'{folder}' is no whole path of a folder. Choose the folder anew.</source>
        <translation>„{folder}“ ist kein vollständiger Pfad eines Ordners. Wählen Sie den Ordner neu.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_problems.py"/>
        <source>'{name}' cannot be used. {reason} Untick it.</source>
        <translation>„{name}“ kann nicht verwendet werden. {reason} Entfernen Sie das Häkchen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_keeper.py"/>
        <source>'{name}' did not finish. {reason}</source>
        <translation>„{name}“ wurde nicht fertig. {reason}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_problems.py"/>
        <source>'{name}' has no coordinate system. Right-click it in the Layers panel, choose Layer CRS, Set Layer CRS, and select the one its coordinates are in.</source>
        <translation>„{name}“ hat kein Koordinatensystem. Klicken Sie im Bedienfeld „Layer“ mit der rechten Maustaste darauf, wählen Sie „Layer-KBS“, „Layer-KBS setzen“ und dort das System seiner Koordinaten.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_keeper.py"/>
        <source>'{name}' is finished.</source>
        <translation>„{name}“ ist fertig.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_keeper.py"/>
        <source>'{name}' of the project open before is finished. Its results are in {folder}.</source>
        <translation>„{name}“ des vorher geöffneten Projekts ist fertig. Die Ergebnisse liegen in {folder}.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/channels.py"/>
        <source>'{name}' shall be raster number {number}, but the list has {count}.</source>
        <translation>„{name}“ soll Raster Nummer {number} sein, aber die Liste hat nur {count}.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_keeper.py"/>
        <source>'{name}' was cancelled.</source>
        <translation>„{name}“ wurde abgebrochen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/channels.py"/>
        <source>'{part}' does not say which band is meant. Write it like mag=1:1, k=3:2: a name, the number of the raster in the list, and its band.</source>
        <translation>„{part}“ sagt nicht, welcher Kanal gemeint ist. Schreiben Sie zum Beispiel mag=1:1, k=3:2: ein Name, die Nummer des Rasters in der Liste und sein Kanal.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_matches.py"/>
        <source>(choose a layer)</source>
        <translation>(Layer wählen)</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>1 iteration</source>
        <translation>1 Iteration</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>1 layer</source>
        <translation>1 Layer</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>1 minute</source>
        <translation>1 Minute</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>1 occurrence</source>
        <translation>1 Vorkommen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layers_step.py"/>
        <source>1 raster</source>
        <translation>1 Raster</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/prospectivity_map.py"/>
        <source>&lt;p&gt;Applies a model to raster layers and writes the relative density of occurrences as a Cloud Optimized GeoTIFF: 5 means five times as many occurrences per square kilometre as on average over the mapped area. It is no probability of a deposit.&lt;/p&gt;&lt;p&gt;The layers are matched with the model's by their names; case, spaces and punctuation do not matter. The map has the model's cell size, or that of the reference grid.&lt;/p&gt;&lt;p&gt;Its uncertainty, if wanted, tells where the networks of an ensemble disagree, and where the layers lie outside what the model has seen.&lt;/p&gt;</source>
        <translation>&lt;p&gt;Wendet ein Modell auf Rasterlayer an und schreibt die relative Dichte der Vorkommen als Cloud Optimized GeoTIFF: 5 bedeutet fünfmal so viele Vorkommen je Quadratkilometer wie im Mittel des kartierten Gebiets. Es ist keine Wahrscheinlichkeit einer Lagerstätte.&lt;/p&gt;&lt;p&gt;Die Layer werden denen des Modells nach ihren Namen zugeordnet; Groß- und Kleinschreibung, Leer- und Satzzeichen spielen keine Rolle. Die Karte hat die Zellgröße des Modells oder die des Referenzrasters.&lt;/p&gt;&lt;p&gt;Ihre Unsicherheit, falls gewünscht, zeigt, wo die Netze eines Ensembles uneins sind und wo die Layer außerhalb dessen liegen, was das Modell gesehen hat.&lt;/p&gt;</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/sample_occurrences.py"/>
        <source>&lt;p&gt;Draws plausible occurrences from a model: points where, by what it learned, occurrences may lie. Draws are independent of each other and follow the density; how sure the model is they do not tell, the uncertainty of 'Prospectivity map' does.&lt;/p&gt;&lt;p&gt;Each point has the number of its draw and log_relative_density, the natural logarithm of the density there relative to the regional mean.&lt;/p&gt;</source>
        <translation>&lt;p&gt;Zieht mögliche Vorkommen aus einem Modell: Punkte, an denen nach dem Gelernten Vorkommen liegen können. Ziehungen sind voneinander unabhängig und folgen der Dichte; wie sicher das Modell ist, sagen sie nicht, das sagt die Unsicherheit von „Prospektivitätskarte“.&lt;/p&gt;&lt;p&gt;Jeder Punkt trägt die Nummer seiner Ziehung und log_relative_density, den natürlichen Logarithmus der dortigen Dichte im Verhältnis zum Mittel der Region.&lt;/p&gt;</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/train_model.py"/>
        <source>&lt;p&gt;Learns where mineral occurrences lie, given raster layers, from known occurrences: no barren points are needed. The cells of occurrences are compared with all cells, as Maxent does (but not by the paper's presets), so ground where nobody has looked counts as poor; where it should not, tick “{positive_only}”.&lt;/p&gt;&lt;p&gt;The rasters are brought onto one grid. Some tiles of the region are kept apart to choose and to judge the model. The result is one file that knows its layers, its grid and its figures; 'Prospectivity map', 'Sample occurrences' and 'Evaluate' apply it.&lt;/p&gt;&lt;p&gt;Cancel keeps the best model so far, as NAME.unfinished.safetensors; the same training, started again, goes on from there.&lt;/p&gt;&lt;p&gt;It ends with a report beside the model, NAME.report.html: what was used, how well held-out occurrences are found, and what to beware of.&lt;/p&gt;</source>
        <translation>&lt;p&gt;Lernt aus bekannten Vorkommen, wo in Abhängigkeit von Rasterlayern Vorkommen liegen: Taube Punkte werden nicht gebraucht. Die Zellen der Vorkommen werden mit allen Zellen verglichen, wie es Maxent tut (nicht aber bei den Vorgaben des Artikels), sodass Gebiete, in denen niemand gesucht hat, als arm gelten; wo sie das nicht sollen, hilft „{positive_only}“.&lt;/p&gt;&lt;p&gt;Die Raster werden auf ein gemeinsames Raster gebracht. Einige Kacheln der Region werden zurückgehalten, um das Modell auszuwählen und zu beurteilen. Das Ergebnis ist eine Datei, die ihre Layer, ihr Raster und ihre Kennzahlen kennt; „Prospektivitätskarte“, „Vorkommen ziehen“ und „Bewerten“ wenden sie an.&lt;/p&gt;&lt;p&gt;Abbrechen behält das bisher beste Modell als NAME.unfinished.safetensors; dasselbe Training, neu gestartet, setzt dort fort.&lt;/p&gt;&lt;p&gt;Am Ende steht ein Bericht neben dem Modell, NAME.report.html: was verwendet wurde, wie gut zurückgehaltene Vorkommen gefunden werden und was zu beachten ist.&lt;/p&gt;</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/evaluate_model.py"/>
        <source>&lt;p&gt;Measures a model on the tiles that training kept apart: which share of the known occurrences lies in the most prospective 1, 5, 10 and 20 % of the area, and the area under the capture curve (chance: 0.5).&lt;/p&gt;&lt;p&gt;Writes a report to read in a browser, report.html, the figures in it and its pictures into a folder. It also tells which layers matter. Occurrences are filtered as in training unless a filter is given. Other methods are measured beside the model, a random forest and a Poisson process unless others are chosen, which tells whether it earned its keep.&lt;/p&gt;</source>
        <translation>&lt;p&gt;Misst ein Modell an den Kacheln, die beim Training zurückgehalten wurden: welcher Anteil der bekannten Vorkommen in den höffigsten 1, 5, 10 und 20 % der Fläche liegt, und die Fläche unter der Erfassungskurve (Zufall: 0,5).&lt;/p&gt;&lt;p&gt;Schreibt einen Bericht für den Browser, report.html, seine Zahlen und seine Bilder in einen Ordner. Er sagt auch, welche Layer zählen. Die Vorkommen werden wie beim Training gefiltert, sofern kein Filter angegeben ist. Andere Verfahren werden neben dem Modell gemessen, ein Random Forest und ein Poisson-Prozess, sofern nicht andere gewählt sind; das zeigt, ob es seinen Aufwand wert ist.&lt;/p&gt;</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/rank_targets.py"/>
        <source>&lt;p&gt;Outlines the connected areas of highest density on a prospectivity map and ranks them by the share of all expected occurrences that they hold.&lt;/p&gt;&lt;p&gt;Each target tells its area, how much denser it is than the region, how uncertain the map is there if its uncertainty is given, and, if known occurrences are given, how many it holds and how far the nearest one is. Ground near known ones can be left out, for greenfield exploration. With the map's model and its layers each target also tells which layers matter there.&lt;/p&gt;&lt;p&gt;A target is where to look first, no probability of a deposit.&lt;/p&gt;</source>
        <translation>&lt;p&gt;Umreißt die zusammenhängenden Flächen höchster Dichte auf einer Prospektivitätskarte und ordnet sie nach dem Anteil, den sie an allen erwarteten Vorkommen haben.&lt;/p&gt;&lt;p&gt;Jede Zielfläche nennt ihre Größe, um wie viel dichter sie ist als die Region, wie unsicher die Karte dort ist, wenn deren Unsicherheit angegeben ist, und, wenn bekannte Vorkommen angegeben sind, wie viele sie enthält und wie weit das nächste entfernt ist. Flächen nahe bekannten Vorkommen können für Greenfield-Exploration ausgelassen werden. Mit dem Modell der Karte und seinen Layern nennt jede Zielfläche auch die Layer, die dort zählen.&lt;/p&gt;&lt;p&gt;Eine Zielfläche ist, wo zuerst gesucht werden sollte, keine Wahrscheinlichkeit einer Lagerstätte.&lt;/p&gt;</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/check_data.py"/>
        <source>&lt;p&gt;Reads every layer once and says what training would do: the grid, how each layer is brought onto it and how much of it the layer covers, how many occurrences are used, filtered out, outside or on no-data, and what makes training impossible.&lt;/p&gt;&lt;p&gt;Writes nothing but the report.&lt;/p&gt;</source>
        <translation>&lt;p&gt;Liest jeden Layer einmal und sagt, was das Training tun würde: das Raster, wie jeder Layer darauf gebracht wird und wie viel er davon abdeckt, wie viele Vorkommen verwendet werden, herausgefiltert sind, außerhalb oder auf Zellen ohne Daten liegen, und was das Training unmöglich macht.&lt;/p&gt;&lt;p&gt;Schreibt nichts außer dem Bericht.&lt;/p&gt;</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/run_job_file.py"/>
        <source>&lt;p&gt;Runs the jobs of a job file (.toml or .json) one after another, as 'geocfm run' does on a server. A job that fails does not stop the others; one that needs its result is left out. Jobs that were done before, from the same inputs, are not done again.&lt;/p&gt;&lt;p&gt;Maps, targets and sampled points are loaded into the project.&lt;/p&gt;</source>
        <translation>&lt;p&gt;Führt die Aufträge einer Auftragsdatei (.toml oder .json) nacheinander aus, wie es „geocfm run“ auf einem Server tut. Ein gescheiterter Auftrag hält die anderen nicht auf; einer, der sein Ergebnis braucht, wird ausgelassen. Was aus denselben Eingaben schon gemacht ist, wird nicht noch einmal gemacht.&lt;/p&gt;&lt;p&gt;Karten, Zielflächen und gezogene Punkte werden ins Projekt geladen.&lt;/p&gt;</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>A .safetensors file that 'Train model' has written.</source>
        <translation>Eine .safetensors-Datei, die „Modell trainieren“ geschrieben hat.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment.ui"/>
        <source>A Python 3.10 or newer in which the engine's packages are installed already.</source>
        <translation>Ein Python 3.10 oder neuer, in dem die Pakete des Rechenkerns schon installiert sind.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment.ui"/>
        <source>A Python 3.10 or newer with the engine's packages, for example of a virtual environment or of conda. It is started and asked for its versions and devices before it is used.</source>
        <translation>Ein Python 3.10 oder neuer mit den Paketen des Rechenkerns, zum Beispiel aus einer virtuellen Umgebung oder von conda. Es wird gestartet und nach Versionen und Geräten gefragt, bevor es verwendet wird.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>A downloaded package was damaged.</source>
        <translation>Ein heruntergeladenes Paket war beschädigt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>A file could not be written.</source>
        <translation>Eine Datei konnte nicht geschrieben werden.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/options_page.py"/>
        <source>A folder for results</source>
        <translation>Ein Ordner für Ergebnisse</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/create_form.py"/>
        <source>A folder of wheels</source>
        <translation>Ein Ordner mit Wheels</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/run_job_file.py"/>
        <source>A job file holds jobs; it is none by itself.</source>
        <translation>Eine Auftragsdatei enthält Aufträge; sie ist selbst keiner.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/presets.py"/>
        <source>A larger model for an hour on a graphics card.</source>
        <translation>Ein größeres Modell für eine Stunde auf einer Grafikkarte.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/target_parameters.py"/>
        <source>A map that 'Prospectivity map' has made, or another raster of density.</source>
        <translation>Eine Karte, die „Prospektivitätskarte“ gemacht hat, oder ein anderes Raster einer Dichte.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>A model file, .safetensors. It can also be dropped here.</source>
        <translation>Eine Modelldatei, .safetensors. Sie kann auch hier abgelegt werden.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>A model needs at least three: add more.</source>
        <translation>Ein Modell braucht mindestens drei: Fügen Sie weitere hinzu.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/results_step.py"/>
        <source>A new model is always kept: all other results need it.</source>
        <translation>Ein neues Modell wird immer behalten: Alle anderen Ergebnisse brauchen es.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>A package does not come in a fitting version for this Python and computer.</source>
        <translation>Ein Paket gibt es nicht in einer Version, die zu diesem Python und Computer passt.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>A raster of how much was looked where, such as the density of drill holes. Occurrences count for 1 / effort, so that well-known ground does not seem the richer for it.</source>
        <translation>Ein Raster davon, wie viel wo gesucht wurde, etwa die Dichte von Bohrungen. Vorkommen zählen 1 / Aufwand, damit gut erkundete Flächen nicht deshalb reicher scheinen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/training_parameters.py"/>
        <source>A raster of how much was looked where, such as the density of drill holes: occurrences count for 1 / effort, so that well-known ground does not seem the richer for it.</source>
        <translation>Ein Raster davon, wie viel wo gesucht wurde, etwa die Dichte von Bohrungen: Vorkommen zählen 1 / Aufwand, damit gut erkundete Flächen nicht deshalb reicher scheinen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>A raster whose cells are used. Empty: those of the first raster, or of the model.</source>
        <translation>Ein Raster, dessen Zellen verwendet werden. Leer: die des ersten Rasters oder des Modells.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/results_step.py"/>
        <source>A run named '{name}' waits or is at work already. Give this one another name.</source>
        <translation>Ein Lauf namens „{name}“ wartet oder läuft schon. Geben Sie diesem einen anderen Namen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/presets.py"/>
        <source>A small model that is good after minutes, without a graphics card.</source>
        <translation>Ein kleines Modell, das nach Minuten gut ist, ohne Grafikkarte.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/create_form.py"/>
        <source>A standalone Python {version}, to be downloaded</source>
        <translation>Ein eigenständiges Python {version}, das heruntergeladen wird</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/preflight_task.py"/>
        <source>A temporary file cannot be written: {reason}</source>
        <translation>Eine temporäre Datei kann nicht geschrieben werden: {reason}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/run_layers.py"/>
        <source>A temporary result: it is gone when QGIS closes. Export it to keep it.</source>
        <translation>Ein temporäres Ergebnis: Es ist weg, wenn QGIS schließt. Exportieren Sie es, um es zu behalten.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>A virus scanner or a running job may hold it: end the jobs of GeoCFM, let the scanner pass the folder or choose another one, and try again.</source>
        <translation>Vielleicht hält ein Virenscanner oder ein laufender Auftrag sie fest: Beenden Sie die Aufträge von GeoCFM, nehmen Sie den Ordner im Scanner aus oder wählen Sie einen anderen, und versuchen Sie es noch einmal.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/raster_facts.py"/>
        <source>A web map gives pictures, not measured values. Download the grid as a GeoTIFF.</source>
        <translation>Eine Webkarte liefert Bilder, keine Messwerte. Laden Sie das Raster als GeoTIFF herunter.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/layers_step.ui"/>
        <source>Add from file…</source>
        <translation>Aus Datei hinzufügen…</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>Add layers again</source>
        <translation>Layer wieder hinzufügen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layers_step.py"/>
        <source>Add rasters</source>
        <translation>Raster hinzufügen</translation>
    </message>
    <message>
        <location filename="../../resources/forms/layers_step.ui"/>
        <source>Add rasters to the project and tick them.</source>
        <translation>Raster zum Projekt hinzufügen und ankreuzen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_keeper.py"/>
        <source>Add to this project</source>
        <translation>Zu diesem Projekt hinzufügen</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Advanced</source>
        <translation>Erweitert</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/engine_algorithm.py"/>
        <source>All details are in {path}.</source>
        <translation>Alle Einzelheiten stehen in {path}.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/layers_step.ui"/>
        <source>All layers are brought to the coordinate system, cell size and extent of this raster while they are read. Their files stay as they are.</source>
        <translation>Alle Layer werden beim Lesen in Koordinatensystem, Zellgröße und Ausdehnung dieses Rasters gebracht. Ihre Dateien bleiben, wie sie sind.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_create.ui"/>
        <source>All that is installed goes into this folder. It must be new, empty, or one that the plugin made.</source>
        <translation>Alles, was installiert wird, kommt in diesen Ordner. Er muss neu, leer oder von der Erweiterung angelegt sein.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/results_step.py"/>
        <source>Already there under this name: {names}.</source>
        <translation>Unter diesem Namen schon vorhanden: {names}.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan_text.py"/>
        <source>An earlier installation did not come to its end.</source>
        <translation>Eine frühere Installation kam nicht zu Ende.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/page.py"/>
        <source>An engine is chosen, and was not asked yet whether it works.</source>
        <translation>Ein Rechenkern ist gewählt und wurde noch nicht gefragt, ob er funktioniert.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>An exponent of the density: below 1 the map is flatter. Empty: 1.</source>
        <translation>Ein Exponent der Dichte: Unter 1 ist die Karte flacher. Leer: 1.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/results_step.py"/>
        <source>An interrupted run of this name is there. It goes on where it stopped if its inputs and settings are the same; tick this to begin anew.</source>
        <translation>Ein unterbrochener Lauf dieses Namens ist vorhanden. Er wird fortgesetzt, wenn Eingaben und Einstellungen dieselben sind; kreuzen Sie dies an, um neu zu beginnen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/lock.py"/>
        <source>Another window is working on this environment ({holder}).</source>
        <translation>Ein anderes Fenster arbeitet an dieser Umgebung ({holder}).</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Any other setting of the engine by its name; several with commas.</source>
        <translation>Jede andere Einstellung des Rechenkerns mit ihrem Namen; mehrere durch Kommas getrennt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan_text.py"/>
        <source>Apple graphics processor and CPU, about {size}</source>
        <translation>Apple-Grafikprozessor und CPU, etwa {size}</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Apply a model that was trained before, here or elsewhere.</source>
        <translation>Ein Modell anwenden, das schon trainiert ist, hier oder anderswo.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>Apply the model of this run, in step 3.</source>
        <translation>Das Modell dieses Laufs in Schritt 3 anwenden.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>Area</source>
        <translation>Fläche</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/area.py"/>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../resources/forms/layers_step.ui"/>
        <source>Area of interest</source>
        <translation>Untersuchungsgebiet</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/evaluate_model.py"/>
        <source>Area under the capture curve, held-out tiles</source>
        <translation>Fläche unter der Erfassungskurve, zurückgehaltene Kacheln</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/stage_names.py"/>
        <source>Asking which layers matter</source>
        <translation>Layer, die zählen, erfragen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>At most</source>
        <translation>Höchstens</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/target_parameters.py"/>
        <source>At most: the best so many are kept.</source>
        <translation>Höchstens: Die besten so vielen werden behalten.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/model_step.py"/>
        <location filename="../../geocfm_qgis/panel/presets.py"/>
        <source>Automatic</source>
        <translation>Automatisch</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>Away from known ones</source>
        <translation>Abstand zu bekannten</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>Bands and their names</source>
        <translation>Kanäle und ihre Namen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/preflight_view.py"/>
        <source>Before it can run:</source>
        <translation>Bevor es laufen kann:</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_create.ui"/>
        <source>Behind a proxy, own index, offline</source>
        <translation>Hinter einem Proxy, eigener Index, offline</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>Best part of the area</source>
        <translation>Bester Teil der Fläche</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/options_page.py"/>
        <source>CPU</source>
        <translation>CPU</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan_text.py"/>
        <source>CPU, about {size}</source>
        <translation>CPU, etwa {size}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>CRS of the grid</source>
        <translation>KBS des Rasters</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_work.ui"/>
        <location filename="../../resources/forms/run_view.ui"/>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <location filename="../../resources/forms/run_view.ui"/>
        <source>Cancel keeps the best model so far.</source>
        <translation>Abbrechen behält das bisher beste Modell.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_end.py"/>
        <source>Cancelled after {time}.</source>
        <translation>Abgebrochen nach {time}.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/installer.py"/>
        <source>Cancelled. Nothing was changed.</source>
        <translation>Abgebrochen. Nichts wurde geändert.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/installation.py"/>
        <source>Cancelled. Nothing was left behind.</source>
        <translation>Abgebrochen. Nichts ist zurückgeblieben.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/installation.py"/>
        <source>Cancelled; the half-made environment is removed.</source>
        <translation>Abgebrochen; die halb fertige Umgebung ist entfernt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/work_view.py"/>
        <source>Cancelling …</source>
        <translation>Wird abgebrochen …</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrences_step.py"/>
        <source>Cannot be read</source>
        <translation>Nicht lesbar</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Cell size</source>
        <translation>Zellgröße</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layers_step.py"/>
        <source>Cells as in the model</source>
        <translation>Zellen wie im Modell</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/plan.py"/>
        <source>Check</source>
        <translation>Prüfen</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment.ui"/>
        <source>Check and use</source>
        <translation>Prüfen und verwenden</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/check_data.py"/>
        <location filename="../../geocfm_qgis/wording.py"/>
        <source>Check data</source>
        <translation>Daten prüfen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>Check its address in Settings &gt; Options &gt; Network, or enter another one below.</source>
        <translation>Prüfen Sie seine Adresse unter Einstellungen &gt; Optionen &gt; Netzwerk, oder geben Sie unten eine andere ein.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>Check its address, and the user name and password in it, below.</source>
        <translation>Prüfen Sie unten die Adresse und den Benutzernamen und das Passwort darin.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>Check the network and the proxy; or install Python 3.12 from python.org or with the software manager of your system, then search again.</source>
        <translation>Prüfen Sie das Netzwerk und den Proxy; oder installieren Sie Python 3.12 von python.org oder mit der Softwareverwaltung Ihres Systems, und suchen Sie dann noch einmal.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>Check the network. Behind a proxy, or with an index of your own, enter its address below; without a network, install from a folder of wheels.</source>
        <translation>Prüfen Sie das Netzwerk. Hinter einem Proxy oder mit einem eigenen Index geben Sie unten dessen Adresse ein; ohne Netzwerk installieren Sie aus einem Ordner mit Wheels.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/lock.py"/>
        <location filename="../../geocfm_qgis/environment/place.py"/>
        <source>Choose a folder in which you may make files.</source>
        <translation>Wählen Sie einen Ordner, in dem Sie Dateien anlegen dürfen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>Choose a folder with a short path, such as C:\geocfm.</source>
        <translation>Wählen Sie einen Ordner mit kurzem Pfad, etwa C:\geocfm.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/place.py"/>
        <source>Choose a new or an empty folder for the engine.</source>
        <translation>Wählen Sie einen neuen oder leeren Ordner für den Rechenkern.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrences_step.py"/>
        <source>Choose a point layer</source>
        <translation>Wählen Sie einen Punktlayer</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/area_choice.py"/>
        <source>Choose a polygon layer</source>
        <translation>Wählen Sie einen Polygonlayer</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>Choose another Python (3.11 and 3.12 are served best). A folder of wheels must hold all packages, made for this Python. On Macs with an Intel processor, PyTorch has no new versions.</source>
        <translation>Wählen Sie ein anderes Python (3.11 und 3.12 werden am besten versorgt). Ein Ordner mit Wheels muss alle Pakete für genau dieses Python enthalten. Für Macs mit Intel-Prozessor gibt es keine neuen Versionen von PyTorch.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>Choose another Python on the GeoCFM page of QGIS's options, or ask whoever looks after this computer whether a rule or a virus scanner forbids it.</source>
        <translation>Wählen Sie auf der Seite „GeoCFM“ der QGIS-Optionen ein anderes Python, oder fragen Sie die Betreuer dieses Computers, ob eine Regel oder ein Virenscanner es verbietet.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/runs/run_task.py"/>
        <source>Choose another folder for the results, or free some space on the disk.</source>
        <translation>Wählen Sie einen anderen Ordner für die Ergebnisse, oder schaffen Sie Platz auf der Festplatte.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>Choose or create one on the GeoCFM page of QGIS's options (Settings, Options).</source>
        <translation>Wählen oder erstellen Sie eines auf der Seite „GeoCFM“ der QGIS-Optionen (Einstellungen, Optionen).</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>Choose “Create one for me” on the GeoCFM page of QGIS's options, repair the environment there, or install the packages into this Python yourself.</source>
        <translation>Wählen Sie „Eines für mich erstellen“ auf der Seite „GeoCFM“ der QGIS-Optionen, reparieren Sie dort die Umgebung, oder installieren Sie die Pakete selbst in dieses Python.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../geocfm_qgis/panel/channel_tree.py"/>
        <source>Classes</source>
        <translation>Klassen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>Close other programs and try again.</source>
        <translation>Schließen Sie andere Programme und versuchen Sie es noch einmal.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>Close other programs, or choose a smaller window, larger cells or a smaller area; then run it again.</source>
        <translation>Schließen Sie andere Programme, oder wählen Sie ein kleineres Fenster, größere Zellen oder ein kleineres Gebiet; starten Sie dann noch einmal.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/run_view.ui"/>
        <source>Close this report; the results stay.</source>
        <translation>Diesen Bericht schließen; die Ergebnisse bleiben.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Compute on</source>
        <translation>Rechnen auf</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_create.ui"/>
        <source>Computes on</source>
        <translation>Rechnet auf</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_menu.py"/>
        <source>Copied.</source>
        <translation>Kopiert.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_menu.py"/>
        <source>Copied. Some inputs are temporary files, which are gone when QGIS closes; 'Save job file…' keeps them.</source>
        <translation>Kopiert. Einige Eingaben sind temporäre Dateien, die weg sind, wenn QGIS schließt; „Auftragsdatei speichern…“ behält sie.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_menu.py"/>
        <source>Copy as command line</source>
        <translation>Als Befehlszeile kopieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_menu.py"/>
        <source>Copy as job file</source>
        <translation>Als Auftragsdatei kopieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_end.py"/>
        <location filename="../../resources/forms/engine_banner.ui"/>
        <location filename="../../resources/forms/preflight.ui"/>
        <source>Copy diagnostics</source>
        <translation>Diagnose kopieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>Copy job file</source>
        <translation>Auftragsdatei kopieren</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_create.ui"/>
        <source>Copy the command</source>
        <translation>Befehl kopieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <location filename="../../geocfm_qgis/runs/run_task.py"/>
        <source>Copy the diagnostics and report it, please.</source>
        <translation>Kopieren Sie bitte die Diagnose und melden Sie den Fehler.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>Copy the jobs of this run as a file for 'geocfm run'.</source>
        <translation>Die Aufträge dieses Laufs als Datei für „geocfm run“ kopieren.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_work.ui"/>
        <location filename="../../resources/forms/run_view.ui"/>
        <source>Copy the log</source>
        <translation>Protokoll kopieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>Copy the map of this run to where you want it.</source>
        <translation>Die Karte dieses Laufs dorthin kopieren, wo Sie sie haben möchten.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/point_table.py"/>
        <source>Counting occurrences</source>
        <translation>Vorkommen werden gezählt</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrences_step.py"/>
        <source>Counting…</source>
        <translation>Wird gezählt…</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment.ui"/>
        <source>Create one for me</source>
        <translation>Eines für mich erstellen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/run_layers.py"/>
        <source>Cross-validated map</source>
        <translation>Kreuzvalidierte Karte</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Cross-validation</source>
        <translation>Kreuzvalidierung</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_set_menu.py"/>
        <source>Delete a set</source>
        <translation>Satz löschen</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_create.ui"/>
        <source>Deletes what the plugin installed in the folder, and nothing else.</source>
        <translation>Löscht, was die Erweiterung in dem Ordner installiert hat, und sonst nichts.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/stage_names.py"/>
        <source>Densities of the points</source>
        <translation>Dichten der Punkte</translation>
    </message>
    <message>
        <location filename="../../resources/forms/options.ui"/>
        <source>Device</source>
        <translation>Gerät</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>Disagreement of the networks (0: none)</source>
        <translation>Uneinigkeit der Netze (0: keine)</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>Distance to the nearest</source>
        <translation>Abstand zum nächsten</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_events.py"/>
        <source>Done in {seconds} s.</source>
        <translation>Fertig in {seconds} s.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/run_layers.py"/>
        <source>Draw {number}</source>
        <translation>Ziehung {number}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/stage_names.py"/>
        <source>Drawing points</source>
        <translation>Punkte werden gezogen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>Draws</source>
        <translation>Ziehungen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/run_layers.py"/>
        <source>Draws {first} to {last}</source>
        <translation>Ziehungen {first} bis {last}</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Each fold of tiles is mapped by a model that never saw it, so that the whole region judges the method; the last model learns from all tiles. They share the time.</source>
        <translation>Jede Gruppe von Kacheln wird von einem Modell kartiert, das sie nie gesehen hat, sodass die ganze Region das Verfahren beurteilt; das letzte Modell lernt aus allen Kacheln. Sie teilen sich die Zeit.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/training_parameters.py"/>
        <source>Each fold of tiles is mapped by a model that never saw it, which judges the method on the whole region; the last model learns from all tiles. Empty: no cross-validation.</source>
        <translation>Jede Gruppe von Kacheln wird von einem Modell kartiert, das sie nie gesehen hat; das beurteilt das Verfahren auf der ganzen Region. Das letzte Modell lernt aus allen Kacheln. Leer: keine Kreuzvalidierung.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>Each is a set of points that together follow the density.</source>
        <translation>Jede ist eine Menge von Punkten, die zusammen der Dichte folgen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/training_parameters.py"/>
        <source>Each is trained from its own seed and its own choice of occurrences, and all share the minutes. How good a single one becomes is a matter of chance; where several disagree a map is uncertain.</source>
        <translation>Jedes wird mit eigenem Startwert und eigener Auswahl der Vorkommen trainiert, alle teilen sich die Minuten. Wie gut ein einzelnes wird, ist Glückssache; wo mehrere uneins sind, ist eine Karte unsicher.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>Each learns from the model's own training tiles and is measured beside it. The two UNets take as long as the model's training did, the others seconds to minutes. Random Forest and Poisson process alone are left out where the region is too large for them. None: the report is of the model alone.</source>
        <translation>Jedes lernt aus den Trainingskacheln des Modells und wird neben ihm gemessen. Die beiden UNets brauchen so lange wie das Training des Modells, die anderen Sekunden bis Minuten. Random Forest und Poisson process allein entfallen, wo die Region zu groß für sie ist. Keines: Der Bericht handelt vom Modell allein.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/results_step.ui"/>
        <source>Each run gets a folder of its own in this one.</source>
        <translation>Jeder Lauf bekommt darin einen eigenen Ordner.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/options.ui"/>
        <source>Empty: a folder beside the project.</source>
        <translation>Leer: ein Ordner neben dem Projekt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/training_parameters.py"/>
        <source>Empty: as long as the preset says, 5 minutes for quick and 60 for full.</source>
        <translation>Leer: so lange, wie die Vorgabe sagt, 5 Minuten für „Schnell“ und 60 für „Voll“.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>Empty: as many as the model's own settings say.</source>
        <translation>Leer: so viele, wie die Einstellungen des Modells sagen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/training_parameters.py"/>
        <source>Empty: chosen from the data.</source>
        <translation>Leer: nach den Daten gewählt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>Empty: that of the reference grid.</source>
        <translation>Leer: die des Referenzrasters.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>Empty: the model's own.</source>
        <translation>Leer: der des Modells.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/place.py"/>
        <source>End the running jobs of GeoCFM in all QGIS windows and try again.</source>
        <translation>Beenden Sie die laufenden Aufträge von GeoCFM in allen QGIS-Fenstern und versuchen Sie es noch einmal.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/training_parameters.py"/>
        <source>Ends the training after so many steps; repeats to the last digit.</source>
        <translation>Beendet das Training nach so vielen Schritten; wiederholt sich bis zur letzten Stelle.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/options.ui"/>
        <source>Engine</source>
        <translation>Rechenkern</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>Enter the address of an HTTP proxy below, or install from a folder of wheels.</source>
        <translation>Geben Sie unten die Adresse eines HTTP-Proxys ein, oder installieren Sie aus einem Ordner mit Wheels.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>Enter them under Settings &gt; Options &gt; Network, or below as http://user:password@host:port.</source>
        <translation>Geben Sie sie unter Einstellungen &gt; Optionen &gt; Netzwerk ein, oder unten als http://user:password@host:port.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/evaluate_model.py"/>
        <location filename="../../geocfm_qgis/wording.py"/>
        <source>Evaluate</source>
        <translation>Bewerten</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>Evaluation</source>
        <translation>Bewertung</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/destinations.py"/>
        <source>Evaluation folder</source>
        <translation>Ordner der Bewertung</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/presets.py"/>
        <source>Every number as in the paper's Earth MRI experiments; takes very long.</source>
        <translation>Jede Zahl wie in den Earth-MRI-Versuchen des Artikels; dauert sehr lange.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/presets.py"/>
        <source>Every number as in the paper's synthetic experiments; takes very long.</source>
        <translation>Jede Zahl wie in den synthetischen Versuchen des Artikels; dauert sehr lange.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>Expected occurrences</source>
        <translation>Erwartete Vorkommen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <location filename="../../geocfm_qgis/panel/run_end.py"/>
        <source>Export GeoTIFF…</source>
        <translation>GeoTIFF exportieren…</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <location filename="../../geocfm_qgis/panel/run_end.py"/>
        <source>Export the GeoTIFF</source>
        <translation>GeoTIFF exportieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/runs/run_task.py"/>
        <source>Exporting layers</source>
        <translation>Layer werden exportiert</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/raster_export.py"/>
        <source>Exporting the layer '{layer}' to {path}.</source>
        <translation>Der Layer „{layer}“ wird nach {path} exportiert.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/area.py"/>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>Extent</source>
        <translation>Ausdehnung</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan.py"/>
        <source>Fetch a standalone Python {version}</source>
        <translation>Ein eigenständiges Python {version} holen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan.py"/>
        <source>Fetch uv, a small program that brings a Python of its own</source>
        <translation>uv holen, ein kleines Programm, das ein eigenes Python mitbringt</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>Fill the panel with what was chosen for this run.</source>
        <translation>Das Bedienfeld mit dem füllen, was für diesen Lauf gewählt war.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../resources/forms/occurrences_step.ui"/>
        <source>Filter by field</source>
        <translation>Nach Feld filtern</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/stage_names.py"/>
        <source>Finding targets</source>
        <translation>Zielflächen suchen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_end.py"/>
        <source>Finished in {time}.</source>
        <translation>Fertig in {time}.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_create.ui"/>
        <source>Folder</source>
        <translation>Ordner</translation>
    </message>
    <message>
        <location filename="../../resources/forms/options.ui"/>
        <source>Folder for results</source>
        <translation>Ordner für Ergebnisse</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_create.ui"/>
        <source>Folder of wheels</source>
        <translation>Ordner mit Wheels</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>For greenfield targets: ground this close to a known occurrence is left out.</source>
        <translation>Für Greenfield-Ziele: Flächen, die so nahe an einem bekannten Vorkommen liegen, werden ausgelassen.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/options.ui"/>
        <source>For new jobs</source>
        <translation>Für neue Aufträge</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>Forget</source>
        <translation>Vergessen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/presets.py"/>
        <source>Full</source>
        <translation>Voll</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/panel.py"/>
        <source>GeoCFM</source>
        <translation>GeoCFM</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/engine_state.py"/>
        <source>GeoCFM computes in a Python of its own, apart from QGIS. It has to be set up once.</source>
        <translation>GeoCFM rechnet in einem eigenen Python, getrennt von QGIS. Es muss einmal eingerichtet werden.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/__init__.py"/>
        <source>GeoCFM has no algorithm '{name}'.</source>
        <translation>GeoCFM hat keinen Algorithmus „{name}“.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/plugin.py"/>
        <source>GeoCFM panel</source>
        <translation>GeoCFM-Bedienfeld</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/run_layers.py"/>
        <source>GeoCFM run</source>
        <translation>GeoCFM-Lauf</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/sample_data.py"/>
        <source>GeoCFM sample: Murchison gold</source>
        <translation>GeoCFM-Beispiel: Gold am Murchison</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/page.py"/>
        <source>GeoCFM {geocfm}, PyTorch {torch}, Python {python}. Computes on: {devices}.</source>
        <translation>GeoCFM {geocfm}, PyTorch {torch}, Python {python}. Rechnet auf: {devices}.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/engine_algorithm.py"/>
        <source>GeoCFM's engine is not set up yet. Choose a Python for it, or let one be made, under Settings &gt; Options &gt; GeoCFM.</source>
        <translation>Der Rechenkern von GeoCFM ist noch nicht eingerichtet. Wählen Sie unter Einstellungen &gt; Optionen &gt; GeoCFM ein Python für ihn, oder lassen Sie eines erstellen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/engine_state.py"/>
        <source>GeoCFM: asking the engine</source>
        <translation>GeoCFM: Rechenkern wird befragt</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/check_report.py"/>
        <source>GeoCFM: check of the data</source>
        <translation>GeoCFM: Prüfung der Daten</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/page.py"/>
        <source>GeoCFM: checking the engine</source>
        <translation>GeoCFM: Rechenkern wird geprüft</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>GeoCFM: earlier runs of this project</source>
        <translation>GeoCFM: frühere Läufe dieses Projekts</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/installer.py"/>
        <source>GeoCFM: installing the engine</source>
        <translation>GeoCFM: Rechenkern wird installiert</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/preflight_task.py"/>
        <source>GeoCFM: looking at the data</source>
        <translation>GeoCFM: Daten werden angesehen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/create_form.py"/>
        <source>GeoCFM: looking for Python</source>
        <translation>GeoCFM: Python wird gesucht</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/installer.py"/>
        <source>GeoCFM: removing the engine</source>
        <translation>GeoCFM: Rechenkern wird entfernt</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/help_window.py"/>
        <source>GeoCFM: tutorial</source>
        <translation>GeoCFM: Einführung</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan.py"/>
        <source>Give the folder with its full path.</source>
        <translation>Geben Sie den Ordner mit vollständigem Pfad an.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan_text.py"/>
        <source>Go on installing {size} into {folder}</source>
        <translation>Installation von {size} in {folder} fortsetzen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_menu.py"/>
        <source>Gold in the Murchison, Western Australia: four rasters and 255 deposits.</source>
        <translation>Gold am Murchison, Westaustralien: vier Raster und 255 Lagerstätten.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/target_parameters.py"/>
        <source>Greenfield targets: ground within so many kilometres of a known occurrence is left out. Empty or 0: nothing is.</source>
        <translation>Greenfield-Ziele: Flächen innerhalb so vieler Kilometer um ein bekanntes Vorkommen werden ausgelassen. Leer oder 0: keine.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/channel_tree.py"/>
        <source>Grid</source>
        <translation>Raster</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layers_step.py"/>
        <source>Grid of the first ticked raster</source>
        <translation>Raster des ersten angekreuzten Layers</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Held-out tile</source>
        <translation>Zurückgehaltene Kachel</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_menu.py"/>
        <source>Help</source>
        <translation>Hilfe</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>Highest density</source>
        <translation>Höchste Dichte</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>How dense occurrences are expected to be, relative to the regional mean.</source>
        <translation>Wie dicht Vorkommen zu erwarten sind, im Verhältnis zum Mittel der Region.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/loss_curve.py"/>
        <source>How far the model is from the known occurrences: the lower, the better. The line is what it learns from, the marks are tiles kept apart. When they no longer fall, more time does not help.</source>
        <translation>Wie weit das Modell von den bekannten Vorkommen entfernt ist: je niedriger, desto besser. Die Linie ist, woraus es lernt, die Marken sind zurückgehaltene Kacheln. Wenn sie nicht mehr fallen, hilft mehr Zeit nicht.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>How far to trust it</source>
        <translation>Wie weit ihr zu trauen ist</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>How it ended</source>
        <translation>Wie es endete</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>How long to train. More time gives a better model, up to a point: watch the loss.</source>
        <translation>Wie lange trainiert wird. Mehr Zeit ergibt bis zu einem Punkt ein besseres Modell: Beobachten Sie den Verlust.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>How many known occurrences the best ground holds, on tiles kept apart, and which layers matter: with a report to read.</source>
        <translation>Wie viele bekannte Vorkommen die besten Flächen enthalten, auf zurückgehaltenen Kacheln, und welche Layer zählen: mit einem Bericht zum Lesen.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>How many networks the model consists of; they share the time. How good a single one becomes is a matter of chance; where several disagree the map is uncertain.</source>
        <translation>Aus wie vielen Netzen das Modell besteht; sie teilen sich die Zeit. Wie gut ein einzelnes wird, ist Glückssache; wo mehrere uneins sind, ist die Karte unsicher.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/destinations.py"/>
        <source>How the networks of a model disagree, if it has several, and where the layers lie outside what the model has seen.</source>
        <translation>Wie uneins die Netze eines Modells sind, wenn es mehrere hat, und wo die Layer außerhalb dessen liegen, was das Modell gesehen hat.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/place.py"/>
        <source>If it is no longer needed, delete it yourself.</source>
        <translation>Wenn er nicht mehr gebraucht wird, löschen Sie ihn selbst.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>If not, a result that is there stays as it is.</source>
        <translation>Wenn nicht, bleibt ein vorhandenes Ergebnis, wie es ist.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/results_step.ui"/>
        <source>In a folder</source>
        <translation>In einem Ordner</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_end.py"/>
        <source>In the cross-validation, the most prospective {area} % of the ground hold {share} % of {count} occurrences.</source>
        <translation>In der Kreuzvalidierung enthalten die höffigsten {area} % der Fläche {share} % von {count} Vorkommen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>In the unit of the grid's coordinate system.</source>
        <translation>In der Einheit des Koordinatensystems des Rasters.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/provenance.py"/>
        <source>Input: {use}: {path}, {size} bytes, changed {time}</source>
        <translation>Eingabe: {use}: {path}, {size} Bytes, geändert {time}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>Inside</source>
        <translation>Innerhalb</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/create_form.py"/>
        <source>Install</source>
        <translation>Installieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan.py"/>
        <source>Install PyTorch for NVIDIA graphics cards</source>
        <translation>PyTorch für NVIDIA-Grafikkarten installieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan.py"/>
        <source>Install PyTorch for the CPU</source>
        <translation>PyTorch für die CPU installieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/installation.py"/>
        <source>Install Python 3.12 from python.org, then search again.</source>
        <translation>Installieren Sie Python 3.12 von python.org und suchen Sie dann noch einmal.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>Install an older PyTorch into the engine's Python, or use another computer.</source>
        <translation>Installieren Sie ein älteres PyTorch in das Python des Rechenkerns, oder verwenden Sie einen anderen Computer.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>Install the Microsoft Visual C++ Redistributable (x64) from Microsoft, start the computer anew, and press Repair.</source>
        <translation>Installieren Sie das Microsoft Visual C++ Redistributable (x64) von Microsoft, starten Sie den Computer neu und drücken Sie „Reparieren“.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan.py"/>
        <source>Install the packages that the engine needs</source>
        <translation>Die Pakete installieren, die der Rechenkern braucht</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>Install the plugin anew and restart QGIS. If that does not help, choose another Python on the GeoCFM page of QGIS's options: this one may hold a GeoCFM of its own.</source>
        <translation>Installieren Sie die Erweiterung neu und starten Sie QGIS neu. Hilft das nicht, wählen Sie auf der Seite „GeoCFM“ der QGIS-Optionen ein anderes Python: Dieses enthält vielleicht ein eigenes GeoCFM.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>Install the plugin anew.</source>
        <translation>Installieren Sie die Erweiterung neu.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>Install the “Microsoft Visual C++ Redistributable” (x64) from Microsoft, restart the computer and try again. If that does not help, repair the environment on the GeoCFM page of QGIS's options.</source>
        <translation>Installieren Sie das „Microsoft Visual C++ Redistributable“ (x64) von Microsoft, starten Sie den Computer neu und versuchen Sie es noch einmal. Hilft das nicht, reparieren Sie die Umgebung auf der Seite „GeoCFM“ der QGIS-Optionen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan_text.py"/>
        <source>Install {size} into {folder}</source>
        <translation>{size} in {folder} installieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan_text.py"/>
        <source>Installed in &lt;b&gt;{folder}&lt;/b&gt;: about &lt;b&gt;{installed}&lt;/b&gt; on the disk, {download} to download. {free}</source>
        <translation>Installiert in &lt;b&gt;{folder}&lt;/b&gt;: etwa &lt;b&gt;{installed}&lt;/b&gt; auf der Festplatte, {download} herunterzuladen. {free}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan_text.py"/>
        <source>Installed in &lt;b&gt;{folder}&lt;/b&gt;: about &lt;b&gt;{installed}&lt;/b&gt; on the disk. {free}</source>
        <translation>Installiert in &lt;b&gt;{folder}&lt;/b&gt;: etwa &lt;b&gt;{installed}&lt;/b&gt; auf der Festplatte. {free}</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_create.ui"/>
        <source>Installs from this folder and nowhere else, without a network.</source>
        <translation>Installiert aus diesem Ordner und von nirgends sonst, ohne Netzwerk.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/base_python.py"/>
        <source>It cannot make environments because its modules venv and ensurepip are missing. On Debian and Ubuntu the command sudo apt install python3-venv brings them.</source>
        <translation>Es kann keine Umgebungen anlegen, weil seine Module venv und ensurepip fehlen. Auf Debian und Ubuntu bringt der Befehl sudo apt install python3-venv sie mit.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/base_python.py"/>
        <source>It comes from the Microsoft Store, which moves the files that it writes to another place.</source>
        <translation>Es kommt aus dem Microsoft Store, der die geschriebenen Dateien an einen anderen Ort verschiebt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/installation.py"/>
        <source>It computes on the CPU only: PyTorch finds no NVIDIA graphics card that it can use. A newer driver may help.</source>
        <translation>Er rechnet nur auf der CPU: PyTorch findet keine NVIDIA-Grafikkarte, die es verwenden kann. Ein neuerer Treiber kann helfen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/raster_facts.py"/>
        <source>It holds complex numbers. Export its amplitude as a raster of its own.</source>
        <translation>Es enthält komplexe Zahlen. Exportieren Sie seine Amplitude als eigenes Raster.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/base_python.py"/>
        <source>It is a 32-bit Python, and PyTorch comes for 64 bits only.</source>
        <translation>Es ist ein 32-Bit-Python, und PyTorch gibt es nur für 64 Bit.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/base_python.py"/>
        <source>It is a free-threaded build, for which some packages do not come yet.</source>
        <translation>Es ist ein Python ohne globale Sperre (free-threaded), für das es manche Pakete noch nicht gibt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/preflight.py"/>
        <source>It is checked when its turn comes.</source>
        <translation>Er wird geprüft, wenn er an der Reihe ist.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/page.py"/>
        <source>It is incomplete or gone: {python}</source>
        <translation>Sie ist unvollständig oder weg: {python}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/page.py"/>
        <source>It is not used yet: press “Check and use”.</source>
        <translation>Es wird noch nicht verwendet: Drücken Sie „Prüfen und verwenden“.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/page.py"/>
        <source>It is not used.</source>
        <translation>Es wird nicht verwendet.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/base_python.py"/>
        <source>It is too old: the engine needs Python 3.10 or newer.</source>
        <translation>Es ist zu alt: Der Rechenkern braucht Python 3.10 oder neuer.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment.ui"/>
        <source>It runs in a Python of its own; nothing is installed into the one of QGIS.</source>
        <translation>Er läuft in einem eigenen Python; in das von QGIS wird nichts installiert.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/card_text.py"/>
        <source>It works on {size} cells in {crs} and learned from windows of {window} cells.</source>
        <translation>Es arbeitet auf Zellen von {size} in {crs} und hat aus Fenstern von {window} Zellen gelernt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/page.py"/>
        <source>It works, and is used from now on.</source>
        <translation>Es funktioniert und wird von nun an verwendet.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Iterations</source>
        <translation>Iterationen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/raster_facts.py"/>
        <source>Its file cannot be opened; it may have been moved, renamed or deleted.</source>
        <translation>Seine Datei kann nicht geöffnet werden; vielleicht wurde sie verschoben, umbenannt oder gelöscht.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/raster_facts.py"/>
        <source>Its source cannot be reached. Check the connection, or repair the layer.</source>
        <translation>Seine Quelle ist nicht zu erreichen. Prüfen Sie die Verbindung, oder reparieren Sie den Layer.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/card_text.py"/>
        <source>Its validation loss is {loss} after {iterations} iterations: the lower the better, among models of the same data.</source>
        <translation>Sein Validierungsverlust ist {loss} nach {iterations} Iterationen: je niedriger, desto besser, unter Modellen derselben Daten.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>Job file</source>
        <translation>Auftragsdatei</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/event_feedback.py"/>
        <location filename="../../geocfm_qgis/engine_events.py"/>
        <source>Job {number} of {total}: {name}</source>
        <translation>Auftrag {number} von {total}: {name}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/provenance.py"/>
        <source>Job: {json}</source>
        <translation>Auftrag: {json}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/run_job_file.py"/>
        <source>Jobs done</source>
        <translation>Erledigte Aufträge</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>Jobs in the order they are done, as the panel and 'geocfm job' write them.</source>
        <translation>Aufträge in der Reihenfolge, in der sie erledigt werden, wie das Bedienfeld und „geocfm job“ sie schreiben.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/run_job_file.py"/>
        <source>Jobs that did not finish</source>
        <translation>Nicht erledigte Aufträge</translation>
    </message>
    <message>
        <location filename="../../resources/forms/results_step.ui"/>
        <source>Keep</source>
        <translation>Behalten</translation>
    </message>
    <message>
        <location filename="../../resources/forms/layers_step.ui"/>
        <source>Keep the ticked layers with their names as a set, and load it again, also in another project.</source>
        <translation>Die angekreuzten Layer mit ihren Namen als Satz behalten und wieder laden, auch in einem anderen Projekt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>Known occurrences</source>
        <translation>Bekannte Vorkommen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/target_parameters.py"/>
        <source>Known occurrences: each target tells how many it holds, and how far the nearest is.</source>
        <translation>Bekannte Vorkommen: Jede Zielfläche nennt, wie viele sie enthält und wie weit das nächste entfernt ist.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>Layer CRS</source>
        <translation>Layer-KBS</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../geocfm_qgis/panel/steps.py"/>
        <source>Layers</source>
        <translation>Layer</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>Layers that matter here</source>
        <translation>Layer, die hier zählen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Learn from known occurrences alone</source>
        <translation>Allein aus bekannten Vorkommen lernen</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Learn from the occurrences where such occurrences lie.</source>
        <translation>Aus den Vorkommen lernen, wo solche Vorkommen liegen.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/occurrences_step.ui"/>
        <source>Learn only from occurrences that have certain values in a field, such as commodities.</source>
        <translation>Nur aus Vorkommen lernen, die in einem Feld bestimmte Werte haben, etwa Rohstoffe.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/occurrences_step.ui"/>
        <source>Learn only from the features that are selected on the map or in the attribute table.</source>
        <translation>Nur aus den Objekten lernen, die auf der Karte oder in der Attributtabelle gewählt sind.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/card_text.py"/>
        <source>Learned from {count} occurrences of {source} where {where}, on {date}.</source>
        <translation>Gelernt aus {count} Vorkommen von {source} mit {where}, am {date}.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/card_text.py"/>
        <source>Learned from {count} occurrences of {source}, on {date}.</source>
        <translation>Gelernt aus {count} Vorkommen von {source}, am {date}.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>Least area</source>
        <translation>Kleinste Fläche</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>Least density</source>
        <translation>Kleinste Dichte</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>Left out: {reasons}.</source>
        <translation>Ausgelassen: {reasons}.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>Like commod1|commod2 ~ gold, copper: any of the fields holds one of the words. Also =, !=, &lt;, &gt;, &lt;= and &gt;=. Each line is a condition, and all must hold.</source>
        <translation>Zum Beispiel commod1|commod2 ~ gold, copper: Eines der Felder enthält eines der Wörter. Auch =, !=, &lt;, &gt;, &lt;= und &gt;=. Jede Zeile ist eine Bedingung, und alle müssen gelten.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>Like mag=1:1, k=3:2 for band 1 of the first raster as 'mag' and band 2 of the third as 'k'. Empty: all bands of all rasters, named by their layers.</source>
        <translation>Zum Beispiel mag=1:1, k=3:2 für Kanal 1 des ersten Rasters als „mag“ und Kanal 2 des dritten als „k“. Leer: alle Kanäle aller Raster, nach ihren Layern benannt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/training_parameters.py"/>
        <source>Like network.width=32, training.batch=4.</source>
        <translation>Zum Beispiel network.width=32, training.batch=4.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_set_menu.py"/>
        <source>Load '{name}'</source>
        <translation>„{name}“ laden</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_menu.py"/>
        <location filename="../../geocfm_qgis/plugin.py"/>
        <source>Load the sample data</source>
        <translation>Beispieldaten laden</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_work.ui"/>
        <location filename="../../resources/forms/run_view.ui"/>
        <source>Log</source>
        <translation>Protokoll</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/preflight_view.py"/>
        <source>Looking at the data…</source>
        <translation>Daten werden angesehen…</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/create_form.py"/>
        <source>Looking for Pythons on this computer …</source>
        <translation>Auf diesem Computer wird Python gesucht …</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/stage_names.py"/>
        <source>Looking for new ground</source>
        <translation>Unbekanntes Gelände suchen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/command_line.py"/>
        <source>Made by GeoCFM in QGIS. To run it: geocfm run {file}</source>
        <translation>Von GeoCFM in QGIS erstellt. Ausführen mit: geocfm run {file}</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_create.ui"/>
        <source>Made from</source>
        <translation>Erstellt aus</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/provenance.py"/>
        <source>Made: {time}</source>
        <translation>Erstellt: {time}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan.py"/>
        <source>Make an empty environment</source>
        <translation>Eine leere Umgebung anlegen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>Make room, or choose a folder on another disk, and try again.</source>
        <translation>Schaffen Sie Platz oder wählen Sie einen Ordner auf einer anderen Festplatte, und versuchen Sie es noch einmal.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/stage_names.py"/>
        <source>Making the report</source>
        <translation>Bericht schreiben</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>Many companies inspect encrypted traffic with a certificate of their own: ask for its file (.pem), let the variable PIP_CERT name it, and start QGIS anew.</source>
        <translation>Viele Firmen prüfen verschlüsselten Verkehr mit einem eigenen Zertifikat: Lassen Sie sich dessen Datei (.pem) geben, nennen Sie sie in der Variablen PIP_CERT, und starten Sie QGIS neu.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/stage_names.py"/>
        <source>Mapping</source>
        <translation>Kartieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>Mean density</source>
        <translation>Mittlere Dichte</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>Methods to compare with</source>
        <translation>Vergleichsverfahren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/destinations.py"/>
        <location filename="../../geocfm_qgis/panel/plan.py"/>
        <location filename="../../geocfm_qgis/panel/results_step.py"/>
        <location filename="../../geocfm_qgis/panel/steps.py"/>
        <location filename="../../geocfm_qgis/results/provenance.py"/>
        <location filename="../../geocfm_qgis/wording.py"/>
        <source>Model</source>
        <translation>Modell</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/provenance.py"/>
        <source>Model: {path}</source>
        <translation>Modell: {path}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/provenance.py"/>
        <source>Model: {path}, trained {time}</source>
        <translation>Modell: {path}, trainiert {time}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/model_step.py"/>
        <source>Models of GeoCFM</source>
        <translation>Modelle von GeoCFM</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>Monte-Carlo error</source>
        <translation>Monte-Carlo-Fehler</translation>
    </message>
    <message>
        <location filename="../../resources/forms/panel.ui"/>
        <source>More</source>
        <translation>Mehr</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>Most lie outside the grid or the area: check the coordinate system of the point layer, the reference grid and the area of interest.</source>
        <translation>Die meisten liegen außerhalb des Rasters oder Gebiets: Prüfen Sie das Koordinatensystem des Punktlayers, das Referenzraster und das Untersuchungsgebiet.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/layers_step.ui"/>
        <source>Move down</source>
        <translation>Nach unten</translation>
    </message>
    <message>
        <location filename="../../resources/forms/layers_step.ui"/>
        <source>Move the layer down.</source>
        <translation>Den Layer nach unten verschieben.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/layers_step.ui"/>
        <source>Move the layer up. The grid of the first ticked one is used, if no other is chosen.</source>
        <translation>Den Layer nach oben verschieben. Das Raster des ersten angekreuzten wird verwendet, wenn kein anderes gewählt ist.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/layers_step.ui"/>
        <source>Move up</source>
        <translation>Nach oben</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan_text.py"/>
        <source>NVIDIA graphics card (CUDA) and CPU, about {size}</source>
        <translation>NVIDIA-Grafikkarte (CUDA) und CPU, etwa {size}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../geocfm_qgis/panel/channel_tree.py"/>
        <location filename="../../resources/forms/results_step.ui"/>
        <source>Name</source>
        <translation>Name</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_set_menu.py"/>
        <source>Name of the set; one that is there already is replaced:</source>
        <translation>Name des Satzes; ein vorhandener wird ersetzt:</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>Names of layers whose numbers are codes, such as rock units, separated by commas.</source>
        <translation>Namen von Layern, deren Zahlen Codes sind, etwa von Gesteinseinheiten, durch Kommas getrennt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Networks</source>
        <translation>Netze</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_view.py"/>
        <source>Next: {name}</source>
        <translation>Danach: {name}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>No Python is chosen yet that can run GeoCFM's engine.</source>
        <translation>Es ist noch kein Python gewählt, das den Rechenkern von GeoCFM ausführen kann.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan.py"/>
        <source>No Python was found that could fetch one. Install Python 3.12 from python.org or with the software manager of your system, then search again.</source>
        <translation>Es wurde kein Python gefunden, das eines holen könnte. Installieren Sie Python 3.12 von python.org oder mit der Softwareverwaltung Ihres Systems, und suchen Sie dann noch einmal.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>No data</source>
        <translation>Keine Daten</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/vector_export.py"/>
        <source>No feature of '{layer}' is left: none lies inside the extent, or none passes the filter. Widen the extent or change the filter.</source>
        <translation>Kein Objekt von „{layer}“ bleibt übrig: Keines liegt in der Ausdehnung, oder keines erfüllt den Filter. Erweitern Sie die Ausdehnung oder ändern Sie den Filter.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/vector_source.py"/>
        <source>No feature of '{layer}' is selected. Select some, or leave out 'Selected features only'.</source>
        <translation>Kein Objekt von „{layer}“ ist gewählt. Wählen Sie welche, oder lassen Sie „Nur gewählte Objekte“ weg.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>No feature of '{name}' is selected. Select some on the map, or untick 'Selected features only' in step 2.</source>
        <translation>Kein Objekt von „{name}“ ist gewählt. Wählen Sie welche auf der Karte, oder entfernen Sie das Häkchen bei „Nur gewählte Objekte“ in Schritt 2.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layers_step.py"/>
        <source>No layer is ticked</source>
        <translation>Kein Layer ist angekreuzt</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_problems.py"/>
        <source>No layer is ticked. Tick the rasters to learn from in step 1.</source>
        <translation>Kein Layer ist angekreuzt. Kreuzen Sie in Schritt 1 die Raster an, aus denen gelernt wird.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/rank_targets.py"/>
        <source>No map is chosen. Choose a prospectivity raster.</source>
        <translation>Keine Karte ist gewählt. Wählen Sie ein Prospektivitätsraster.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/job_inputs.py"/>
        <source>No model is chosen. Choose a .safetensors file.</source>
        <translation>Kein Modell ist gewählt. Wählen Sie eine .safetensors-Datei.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/model_step.py"/>
        <source>No model is chosen. Choose a model file, or train a new model.</source>
        <translation>Kein Modell ist gewählt. Wählen Sie eine Modelldatei, oder trainieren Sie ein neues Modell.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>No occurrences are chosen. Choose their point layer in step 2.</source>
        <translation>Keine Vorkommen sind gewählt. Wählen Sie in Schritt 2 ihren Punktlayer.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrences_step.py"/>
        <source>No point layer is chosen</source>
        <translation>Kein Punktlayer ist gewählt</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/area_choice.py"/>
        <source>No polygon layer is chosen for the area of interest. Choose one, or choose the whole grid.</source>
        <translation>Für das Untersuchungsgebiet ist kein Polygonlayer gewählt. Wählen Sie einen, oder wählen Sie das ganze Raster.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/raster_files.py"/>
        <source>No raster could be read from: {names}. Check that the files are complete; if another program opens them, export them from there as GeoTIFF.</source>
        <translation>Aus {names} konnte kein Raster gelesen werden. Prüfen Sie, ob die Dateien vollständig sind; wenn ein anderes Programm sie öffnet, exportieren Sie sie von dort als GeoTIFF.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/job_inputs.py"/>
        <source>No raster is chosen. Choose at least one.</source>
        <translation>Kein Raster ist gewählt. Wählen Sie mindestens eines.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>No run of this project has ended yet.</source>
        <translation>In diesem Projekt ist noch kein Lauf beendet.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/layers_step.ui"/>
        <source>None</source>
        <translation>Keine</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>None of the occurrences would be used.</source>
        <translation>Keines der Vorkommen würde verwendet.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/results_step.py"/>
        <source>Nothing is to be made. Tick what you want in the Results step.</source>
        <translation>Nichts soll erstellt werden. Kreuzen Sie im Schritt „Ergebnisse“ an, was Sie möchten.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/stage_names.py"/>
        <source>Noting what the model has seen</source>
        <translation>Festhalten, was das Modell gesehen hat</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>Number of targets</source>
        <translation>Anzahl der Zielflächen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/check_report.py"/>
        <location filename="../../geocfm_qgis/jobs/occurrences.py"/>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../geocfm_qgis/panel/steps.py"/>
        <source>Occurrences</source>
        <translation>Vorkommen</translation>
    </message>
    <message>
        <location filename="../../resources/forms/area_choice.ui"/>
        <source>Occurrences outside the area are not learned from, and results are made inside it only.</source>
        <translation>Aus Vorkommen außerhalb des Gebiets wird nicht gelernt, und Ergebnisse werden nur innerhalb erstellt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/check_data.py"/>
        <location filename="../../geocfm_qgis/results/run_layers.py"/>
        <source>Occurrences used</source>
        <translation>Verwendete Vorkommen</translation>
    </message>
    <message>
        <location filename="../../resources/forms/occurrences_step.ui"/>
        <source>Of several occurrences in one cell of the grid keep the first, so that well drilled places do not weigh more than others.</source>
        <translation>Von mehreren Vorkommen in einer Zelle des Rasters das erste behalten, damit gut erbohrte Stellen nicht mehr wiegen als andere.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>Of several occurrences in one cell of the grid only the first is kept.</source>
        <translation>Von mehreren Vorkommen in einer Zelle des Rasters wird nur das erste behalten.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>On Debian and Ubuntu the command sudo apt install python3-venv brings it. Or choose another Python.</source>
        <translation>Auf Debian und Ubuntu bringt der Befehl sudo apt install python3-venv es mit. Oder wählen Sie ein anderes Python.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_end.py"/>
        <source>On tiles it never saw, the most prospective {area} % of the ground hold {share} % of {count} occurrences.</source>
        <translation>Auf Kacheln, die es nie gesehen hat, enthalten die höffigsten {area} % der Fläche {share} % von {count} Vorkommen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../resources/forms/occurrences_step.ui"/>
        <source>One per cell</source>
        <translation>Eines je Zelle</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>Only inside these polygons; with an extent, only inside both.</source>
        <translation>Nur innerhalb dieser Polygone; mit einer Ausdehnung nur innerhalb von beiden.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>Only inside this rectangle.</source>
        <translation>Nur innerhalb dieses Rechtecks.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/destinations.py"/>
        <source>Only models of the paper's presets (paper-synthetic, paper-earthmri) are mapped by draws, and only such a map has this error: more draws would make it smaller. It says nothing of geology.</source>
        <translation>Nur Modelle der Vorgaben des Artikels (paper-synthetic, paper-earthmri) werden durch Ziehungen kartiert, und nur eine solche Karte hat diesen Fehler: Mehr Ziehungen machten ihn kleiner. Er sagt nichts über Geologie.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Only the surroundings of known occurrences are learned from, so ground where nobody has looked does not count as poor: as for a greenfield beside a mining district. The comparison with all cells, from which training else starts, is left out.</source>
        <translation>Gelernt wird nur aus der Umgebung bekannter Vorkommen, sodass Gebiete, in denen niemand gesucht hat, nicht als arm gelten: etwa für unerkundetes Gelände neben einem Bergbaugebiet. Der Vergleich mit allen Zellen, von dem das Training sonst ausgeht, entfällt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/training_parameters.py"/>
        <source>Only the surroundings of known occurrences are learned from, so ground where nobody has looked does not count as poor: as for a greenfield beside a mining district. The searched ground is then window, and the comparison with all cells, from which training else starts, is left out.</source>
        <translation>Gelernt wird nur aus der Umgebung bekannter Vorkommen, sodass Gebiete, in denen niemand gesucht hat, nicht als arm gelten: etwa für unerkundetes Gelände neben einem Bergbaugebiet. Das abgesuchte Gelände ist dann window, und der Vergleich mit allen Zellen, von dem das Training sonst ausgeht, entfällt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>Only {count} of the occurrences would be used, which is too few to learn from.</source>
        <translation>Nur {count} der Vorkommen würden verwendet; das ist zu wenig, um daraus zu lernen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <location filename="../../geocfm_qgis/panel/run_end.py"/>
        <location filename="../../geocfm_qgis/panel/run_keeper.py"/>
        <source>Open folder</source>
        <translation>Ordner öffnen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/report_algorithm.py"/>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <location filename="../../geocfm_qgis/panel/run_end.py"/>
        <location filename="../../geocfm_qgis/panel/run_keeper.py"/>
        <source>Open report</source>
        <translation>Bericht öffnen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/preflight_task.py"/>
        <source>Or give this run another name in the Results step; the unfinished work stays as it is.</source>
        <translation>Oder geben Sie diesem Lauf im Schritt Ergebnisse einen anderen Namen; die unfertige Arbeit bleibt, wie sie ist.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Other settings</source>
        <translation>Andere Einstellungen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/stage_names.py"/>
        <source>Outlining targets</source>
        <translation>Zielflächen umreißen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/run_layers.py"/>
        <source>Outside what the model has seen</source>
        <translation>Außerhalb dessen, was das Modell gesehen hat</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_create.ui"/>
        <source>Package index</source>
        <translation>Paketindex</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/presets.py"/>
        <source>Paper: Earth MRI</source>
        <translation>Artikel: Earth MRI</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/presets.py"/>
        <source>Paper: synthetic</source>
        <translation>Artikel: synthetisch</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>Part outside what the model has seen (0 to 1)</source>
        <translation>Teil außerhalb dessen, was das Modell gesehen hat (0 bis 1)</translation>
    </message>
    <message>
        <location filename="../../resources/forms/occurrences_step.ui"/>
        <source>Point layer</source>
        <translation>Punktlayer</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>Points drawn from the model, which together follow the density.</source>
        <translation>Punkte, aus dem Modell gezogen, die zusammen der Dichte folgen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>Points in each</source>
        <translation>Punkte in jeder</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>Points of known deposits or showings. Polygons count by their centres.</source>
        <translation>Punkte bekannter Lagerstätten oder Anzeichen. Polygone zählen mit ihrem Mittelpunkt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Preset</source>
        <translation>Vorgabe</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/destinations.py"/>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../geocfm_qgis/results/run_layers.py"/>
        <source>Prospectivity</source>
        <translation>Prospektivität</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/prospectivity_map.py"/>
        <location filename="../../geocfm_qgis/wording.py"/>
        <source>Prospectivity map</source>
        <translation>Prospektivitätskarte</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>Prospectivity raster</source>
        <translation>Prospektivitätsraster</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_create.ui"/>
        <source>Proxy</source>
        <translation>Proxy</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan.py"/>
        <source>PyTorch's own package index did not give it. The ordinary index is used.</source>
        <translation>Der eigene Paketindex von PyTorch hat es nicht geliefert. Der gewöhnliche Index wird verwendet.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan.py"/>
        <source>PyTorch's own package index did not give it. The ordinary index is used; its PyTorch for Windows computes on the CPU only.</source>
        <translation>Der eigene Paketindex von PyTorch hat es nicht geliefert. Der gewöhnliche Index wird verwendet; dessen PyTorch für Windows rechnet nur auf der CPU.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/base_python.py"/>
        <source>Python {version}</source>
        <translation>Python {version}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/base_python.py"/>
        <source>Python {version}, of QGIS</source>
        <translation>Python {version}, von QGIS</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/presets.py"/>
        <source>Quick</source>
        <translation>Schnell</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/presets.py"/>
        <source>Quick on a processor, full on a graphics card.</source>
        <translation>Schnell auf einem Prozessor, voll auf einer Grafikkarte.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>Rank</source>
        <translation>Rang</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/rank_targets.py"/>
        <location filename="../../geocfm_qgis/wording.py"/>
        <source>Rank targets</source>
        <translation>Zielflächen ordnen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>Rasters of any size, cell size and coordinate system; they are brought onto one grid. A model knows its layers by their names.</source>
        <translation>Raster beliebiger Größe, Zellgröße und Koordinatensysteme; sie werden auf ein gemeinsames Raster gebracht. Ein Modell kennt seine Layer nach ihren Namen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>Read the report of this run in the browser.</source>
        <translation>Den Bericht dieses Laufs im Browser lesen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/stage_names.py"/>
        <source>Reading layers</source>
        <translation>Layer werden gelesen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/stage_names.py"/>
        <source>Reading the map</source>
        <translation>Karte lesen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../resources/forms/layers_step.ui"/>
        <source>Reference grid</source>
        <translation>Referenzraster</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_create.ui"/>
        <source>Remove</source>
        <translation>Entfernen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/create_form.py"/>
        <source>Remove the engine's environment from {folder}?</source>
        <translation>Die Umgebung des Rechenkerns aus {folder} entfernen?</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/installer.py"/>
        <source>Removing {folder}</source>
        <translation>{folder} wird entfernt</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan_text.py"/>
        <source>Repair</source>
        <translation>Reparieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan_text.py"/>
        <source>Repair installs again what is missing, or all of it if it does not start.</source>
        <translation>„Reparieren“ installiert noch einmal, was fehlt, oder alles, wenn sie nicht startet.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/installation.py"/>
        <source>Repair or remove it.</source>
        <translation>Reparieren oder entfernen Sie sie.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>Repair the environment on the GeoCFM page of QGIS's options, or create a new one.</source>
        <translation>Reparieren Sie die Umgebung auf der Seite „GeoCFM“ der QGIS-Optionen, oder erstellen Sie eine neue.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>Repeat</source>
        <translation>Wiederholen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_menu.py"/>
        <source>Repeat an earlier run…</source>
        <translation>Einen früheren Lauf wiederholen…</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../resources/forms/results_step.ui"/>
        <source>Replace results that are there</source>
        <translation>Vorhandene Ergebnisse ersetzen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/destinations.py"/>
        <location filename="../../geocfm_qgis/algorithms/report_algorithm.py"/>
        <source>Report</source>
        <translation>Bericht</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>Result</source>
        <translation>Ergebnis</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/steps.py"/>
        <source>Results</source>
        <translation>Ergebnisse</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/results_step.py"/>
        <source>Results cannot be written to {folder}. Choose another folder in the Results step.</source>
        <translation>In {folder} können keine Ergebnisse geschrieben werden. Wählen Sie im Schritt „Ergebnisse“ einen anderen Ordner.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <location filename="../../geocfm_qgis/panel/panel.py"/>
        <location filename="../../resources/forms/panel.ui"/>
        <source>Run</source>
        <translation>Starten</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/panel.py"/>
        <source>Run after this one</source>
        <translation>Nach diesem starten</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_end.py"/>
        <source>Run it again, and it goes on from there.</source>
        <translation>Starten Sie noch einmal, und es geht von dort aus weiter.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>Run it again, and it goes on from what it had saved.</source>
        <translation>Starten Sie noch einmal; es geht von dem aus weiter, was gespeichert ist.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>Run it again: it goes on from what it had saved. If it crashes once more, set the device to “cpu”, or repair the environment on the GeoCFM page of QGIS's options.</source>
        <translation>Starten Sie noch einmal: Es geht von dem aus weiter, was gespeichert ist. Stürzt es wieder ab, stellen Sie das Gerät auf „cpu“, oder reparieren Sie die Umgebung auf der Seite „GeoCFM“ der QGIS-Optionen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>Run it again; if it happens once more, copy the diagnostics and report it.</source>
        <translation>Starten Sie noch einmal; geschieht es wieder, kopieren Sie die Diagnose und melden Sie es.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/run_job_file.py"/>
        <location filename="../../geocfm_qgis/wording.py"/>
        <source>Run job file</source>
        <translation>Auftragsdatei ausführen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/sample_occurrences.py"/>
        <location filename="../../geocfm_qgis/wording.py"/>
        <source>Sample occurrences</source>
        <translation>Vorkommen ziehen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/destinations.py"/>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <location filename="../../geocfm_qgis/results/run_layers.py"/>
        <source>Sampled points</source>
        <translation>Gezogene Punkte</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/run_layers.py"/>
        <source>Sampled points: {count} draws</source>
        <translation>Gezogene Punkte: {count} Ziehungen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_menu.py"/>
        <source>Save job file…</source>
        <translation>Auftragsdatei speichern…</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_set_menu.py"/>
        <source>Save layer set</source>
        <translation>Layersatz speichern</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_menu.py"/>
        <source>Save the job file</source>
        <translation>Auftragsdatei speichern</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_set_menu.py"/>
        <source>Save the ticked layers as a set…</source>
        <translation>Die angekreuzten Layer als Satz speichern…</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_create.ui"/>
        <source>Search again</source>
        <translation>Noch einmal suchen</translation>
    </message>
    <message>
        <location filename="../../resources/forms/occurrences_step.ui"/>
        <source>Search values</source>
        <translation>Werte suchen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Searched ground</source>
        <translation>Abgesuchtes Gelände</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Seed</source>
        <translation>Startwert</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>Select more of them.</source>
        <translation>Wählen Sie mehr davon.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrences_step.py"/>
        <source>Selected features only ({count})</source>
        <translation>Nur gewählte Objekte ({count})</translation>
    </message>
    <message>
        <location filename="../../resources/forms/engine_banner.ui"/>
        <source>Set up the engine…</source>
        <translation>Rechenkern einrichten…</translation>
    </message>
    <message>
        <location filename="../../resources/forms/layers_step.ui"/>
        <source>Sets</source>
        <translation>Sätze</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>Share of all that are expected (0 to 1)</source>
        <translation>Anteil an allen erwarteten (0 bis 1)</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/evaluate_model.py"/>
        <source>Share of occurrences in the best 10 % of the held-out tiles</source>
        <translation>Anteil der Vorkommen in den besten 10 % der zurückgehaltenen Kacheln</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan_text.py"/>
        <source>Should PyTorch's own index not answer, the ordinary one is used. Its PyTorch for Linux includes NVIDIA's libraries and takes up to {size}.</source>
        <translation>Sollte der eigene Index von PyTorch nicht antworten, wird der gewöhnliche verwendet. Dessen PyTorch für Linux enthält die Bibliotheken von NVIDIA und braucht bis zu {size}.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_keeper.py"/>
        <source>Show</source>
        <translation>Zeigen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_end.py"/>
        <source>Show evaluation</source>
        <translation>Bewertung zeigen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>Show the files of this run.</source>
        <translation>Die Dateien dieses Laufs zeigen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>Show the results of this run as a group of layers.</source>
        <translation>Die Ergebnisse dieses Laufs als Layergruppe zeigen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/target_parameters.py"/>
        <source>Smaller ones are left out. Empty: those of fewer than four cells.</source>
        <translation>Kleinere werden ausgelassen. Leer: solche mit weniger als vier Zellen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>Smoothing</source>
        <translation>Glättung</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/provenance.py"/>
        <source>Software: {versions}</source>
        <translation>Software: {versions}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>Solver</source>
        <translation>Lösungsverfahren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/place.py"/>
        <source>Some files in {folder} could not be deleted.</source>
        <translation>Einige Dateien in {folder} konnten nicht gelöscht werden.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_menu.py"/>
        <source>Some layers are no files that the engine can read. 'Save job file…' exports them and saves them beside the file.</source>
        <translation>Einige Layer sind keine Dateien, die der Rechenkern lesen kann. „Auftragsdatei speichern…“ exportiert sie und speichert sie neben der Datei.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/preflight.py"/>
        <source>Some layers are no files that the engine can read. They are exported when the run starts, and checked then.</source>
        <translation>Einige Layer sind keine Dateien, die der Rechenkern lesen kann. Sie werden beim Start des Laufs exportiert und dann geprüft.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/installer.py"/>
        <source>Something went wrong that GeoCFM did not foresee: {error}</source>
        <translation>Etwas ist schiefgegangen, das GeoCFM nicht vorhersah: {error}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/runs/run_task.py"/>
        <source>Sorry, GeoCFM made a mistake and had to stop: {error}</source>
        <translation>Leider hat GeoCFM einen Fehler gemacht und musste anhalten: {error}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/preflight.py"/>
        <source>Sorry, GeoCFM made a mistake while looking at the data: {error}</source>
        <translation>Leider hat GeoCFM beim Ansehen der Daten einen Fehler gemacht: {error}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/installation.py"/>
        <source>Start the engine and ask it for its devices</source>
        <translation>Den Rechenkern starten und nach seinen Geräten fragen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan_text.py"/>
        <source>Start the engine and ask it for its devices.</source>
        <translation>Den Rechenkern starten und nach seinen Geräten fragen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/page.py"/>
        <source>Starting it and asking for its versions …</source>
        <translation>Wird gestartet und nach seinen Versionen gefragt …</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_view.py"/>
        <source>Starting the engine…</source>
        <translation>Der Rechenkern wird gestartet…</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_view.py"/>
        <source>Step {number} of {total}: {name}</source>
        <translation>Schritt {number} von {total}: {name}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/work_view.py"/>
        <source>Step {number} of {total}: {title} ({minutes}:{seconds:02d})</source>
        <translation>Schritt {number} von {total}: {title} ({minutes}:{seconds:02d})</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>Steps of the solver</source>
        <translation>Schritte des Lösungsverfahrens</translation>
    </message>
    <message>
        <location filename="../../resources/forms/run_view.ui"/>
        <source>Stop this run. Training keeps the best model so far.</source>
        <translation>Diesen Lauf anhalten. Das Training behält das bisher beste Modell.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/engine_algorithm.py"/>
        <source>Stopped as asked.</source>
        <translation>Wie gewünscht angehalten.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/engine_algorithm.py"/>
        <location filename="../../geocfm_qgis/runs/run_task.py"/>
        <source>Stopped as asked; nothing had begun.</source>
        <translation>Wie gewünscht angehalten; nichts hatte begonnen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>Stopped; the engine did not end by itself and was ended.</source>
        <translation>Angehalten; der Rechenkern endete nicht von selbst und wurde beendet.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_view.py"/>
        <source>Stopping; what is worth keeping is being saved…</source>
        <translation>Wird angehalten; was sich zu behalten lohnt, wird gespeichert…</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/model_step.py"/>
        <source>Surroundings of occurrences</source>
        <translation>Umgebung der Vorkommen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Survey effort</source>
        <translation>Suchaufwand</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>Take it off this list; results stay.</source>
        <translation>Aus dieser Liste nehmen; die Ergebnisse bleiben.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/panel.ui"/>
        <source>Take this run elsewhere, repeat an earlier one, load the sample data, help</source>
        <translation>Diesen Lauf anderswohin mitnehmen, einen früheren wiederholen, Beispieldaten laden, Hilfe</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_view.py"/>
        <source>Take this run out of the queue.</source>
        <translation>Diesen Lauf aus der Warteschlange nehmen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/runs/run_queue.py"/>
        <source>Taken out of the queue; nothing had begun.</source>
        <translation>Aus der Warteschlange genommen; nichts hatte begonnen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>Target</source>
        <translation>Zielfläche</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/destinations.py"/>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <location filename="../../geocfm_qgis/results/run_layers.py"/>
        <source>Targets</source>
        <translation>Zielflächen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>Targets are the connected parts of so much of the mapped area.</source>
        <translation>Zielflächen sind die zusammenhängenden Teile von so viel der kartierten Fläche.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/target_parameters.py"/>
        <source>Targets are the connected parts of the densest so many percent of the mapped area.</source>
        <translation>Zielflächen sind die zusammenhängenden Teile der dichtesten so vielen Prozent der kartierten Fläche.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/target_parameters.py"/>
        <source>Targets are where the map is at least this, in multiples of the regional mean; outweighs the part of the area.</source>
        <translation>Zielflächen sind, wo die Karte mindestens diesen Wert hat, in Vielfachen des Mittels der Region; geht dem Teil der Fläche vor.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/rank_targets.py"/>
        <source>Targets away from known occurrences need to know where these are. Choose the layer of occurrences, or leave the distance empty.</source>
        <translation>Zielflächen fern von bekannten Vorkommen müssen wissen, wo diese liegen. Wählen Sie den Layer der Vorkommen, oder lassen Sie den Abstand leer.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/results_step.py"/>
        <source>Targets away from known occurrences need to know where these are. Choose them in the Occurrences step, or set the distance to 0 in the Results step.</source>
        <translation>Zielflächen fern von bekannten Vorkommen müssen wissen, wo diese liegen. Wählen Sie sie im Schritt Vorkommen, oder setzen Sie den Abstand im Schritt Ergebnisse auf 0.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>Temperature</source>
        <translation>Temperatur</translation>
    </message>
    <message>
        <location filename="../../resources/forms/results_step.ui"/>
        <source>Temporary, gone when QGIS closes</source>
        <translation>Temporär, weg, wenn QGIS schließt</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/job_inputs.py"/>
        <source>The CRS of the grid is none that QGIS knows.</source>
        <translation>Das KBS des Rasters kennt QGIS nicht.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <location filename="../../geocfm_qgis/panel/run_end.py"/>
        <source>The GeoTIFF is at {path}.</source>
        <translation>Das GeoTIFF liegt unter {path}.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>The Python chosen for the engine does not work.</source>
        <translation>Das für den Rechenkern gewählte Python funktioniert nicht.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>The Python chosen for the engine is gone: {python}.</source>
        <translation>Das für den Rechenkern gewählte Python ist weg: {python}.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/engine_state.py"/>
        <source>The Python that GeoCFM computes in is no longer at {path}. Set it up anew.</source>
        <translation>Das Python, in dem GeoCFM rechnet, ist nicht mehr unter {path}. Richten Sie es neu ein.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/page.py"/>
        <source>The Python that runs the engine</source>
        <translation>Das Python, das den Rechenkern ausführt</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>The Python that this environment was made from is gone.</source>
        <translation>Das Python, aus dem diese Umgebung erstellt wurde, ist weg.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_create.ui"/>
        <source>The address of your own index of Python packages. Empty: the one that pip is set up for on this computer. One with a password is not remembered.</source>
        <translation>Die Adresse Ihres eigenen Index von Python-Paketen. Leer: der, für den pip auf diesem Computer eingerichtet ist. Eine mit Passwort wird nicht gemerkt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>The best ground as ranked polygons, each with what speaks for it and against it.</source>
        <translation>Die besten Flächen als geordnete Polygone, jedes mit dem, was für und gegen es spricht.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_end.py"/>
        <source>The best model so far is kept, and can be used.</source>
        <translation>Das bisher beste Modell bleibt erhalten und kann verwendet werden.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/engine_algorithm.py"/>
        <source>The best model so far is {path}.</source>
        <translation>Das bisher beste Modell ist {path}.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>The cell size of the grid, in the unit of its CRS (metres or degrees).</source>
        <translation>Die Zellgröße des Rasters in der Einheit seines KBS (Meter oder Grad).</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>The certificate of the package index was not accepted.</source>
        <translation>Das Zertifikat des Paketindex wurde nicht angenommen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>The computer ran out of memory.</source>
        <translation>Dem Computer ging der Speicher aus.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/preflight.py"/>
        <source>The data could not be checked: the check itself broke off. You can run it all the same.</source>
        <translation>Die Daten konnten nicht geprüft werden: Die Prüfung selbst brach ab. Sie können den Lauf trotzdem starten.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>The disk is full.</source>
        <translation>Die Festplatte ist voll.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>The engine crashed (code {code}).</source>
        <translation>Der Rechenkern ist abgestürzt (Code {code}).</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>The engine did not answer within {seconds} seconds.</source>
        <translation>Der Rechenkern antwortete nicht innerhalb von {seconds} Sekunden.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>The engine ended unexpectedly (code {code}): {words}</source>
        <translation>Der Rechenkern endete unerwartet (Code {code}): {words}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>The engine ended without saying why (code {code}).</source>
        <translation>Der Rechenkern endete, ohne zu sagen, warum (Code {code}).</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/panel.py"/>
        <source>The engine has no device '{name}' here. Choose another one in the Model step.</source>
        <translation>Der Rechenkern hat hier kein Gerät „{name}“. Wählen Sie im Schritt „Modell“ ein anderes.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>The engine is missing from the folder of the plugin.</source>
        <translation>Der Rechenkern fehlt im Ordner der Erweiterung.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/installation.py"/>
        <location filename="../../geocfm_qgis/environment/page.py"/>
        <source>The engine is ready.</source>
        <translation>Der Rechenkern ist bereit.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/page.py"/>
        <source>The engine needs an update.</source>
        <translation>Der Rechenkern braucht eine Aktualisierung.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>The engine stopped answering and was ended.</source>
        <translation>Der Rechenkern antwortete nicht mehr und wurde beendet.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>The engine that answered and this plugin are of different versions.</source>
        <translation>Der Rechenkern, der geantwortet hat, und diese Erweiterung haben verschiedene Versionen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>The engine was ended from outside.</source>
        <translation>Der Rechenkern wurde von außen beendet.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/page.py"/>
        <source>The engine's Python does not work any more.</source>
        <translation>Das Python des Rechenkerns funktioniert nicht mehr.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/page.py"/>
        <source>The engine's Python is set from outside.</source>
        <translation>Das Python des Rechenkerns ist von außen festgelegt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/installation.py"/>
        <source>The environment is made anew.</source>
        <translation>Die Umgebung wird neu angelegt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/installer.py"/>
        <source>The environment is removed.</source>
        <translation>Die Umgebung ist entfernt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_menu.py"/>
        <source>The equivalent calls of geocfm, for a terminal.</source>
        <translation>Die entsprechenden Aufrufe von geocfm, für ein Terminal.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/area.py"/>
        <source>The extent and the polygons of '{layer}' do not overlap. Leave out one of them, or move the extent.</source>
        <translation>Die Ausdehnung und die Polygone von „{layer}“ überschneiden sich nicht. Lassen Sie eines davon weg, oder verschieben Sie die Ausdehnung.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/area.py"/>
        <source>The extent lies beyond where {crs} is defined. Choose another one.</source>
        <translation>Die Ausdehnung liegt außerhalb des Bereichs, für den {crs} definiert ist. Wählen Sie eine andere.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/area_choice.py"/>
        <source>The extent of the area of interest is not set. Take it from the map or a layer with the button beside it, or choose the whole grid.</source>
        <translation>Die Ausdehnung des Untersuchungsgebiets ist nicht gesetzt. Übernehmen Sie sie mit dem Knopf daneben aus der Karte oder einem Layer, oder wählen Sie das ganze Raster.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/options_page.py"/>
        <source>The fastest there is</source>
        <translation>Das schnellste, das da ist</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>The field '{field}' cannot be filtered by, as its name holds one of ~ = ! &lt; &gt; |. Rename the field, or set a filter in QGIS (right-click the layer, Filter).</source>
        <translation>Nach dem Feld „{field}“ kann nicht gefiltert werden, da sein Name eines der Zeichen ~ = ! &lt; &gt; | enthält. Benennen Sie das Feld um, oder setzen Sie einen Filter in QGIS (Rechtsklick auf den Layer, Filtern).</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_problems.py"/>
        <source>The file of '{name}' is not found: {source}. Right-click the layer in the Layers panel and choose Change Data Source, or untick it.</source>
        <translation>Die Datei von „{name}“ ist nicht zu finden: {source}. Klicken Sie im Bedienfeld „Layer“ mit der rechten Maustaste auf den Layer und wählen Sie „Datenquelle ändern“, oder entfernen Sie das Häkchen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/layer_file.py"/>
        <source>The file of the layer '{layer}' is gone: {path}. Put it back or repair the layer's source.</source>
        <translation>Die Datei des Layers „{layer}“ ist weg: {path}. Legen Sie sie zurück, oder reparieren Sie die Quelle des Layers.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>The file of the point layer '{name}' is not found. Right-click it in the Layers panel and choose Change Data Source, or choose another in step 2.</source>
        <translation>Die Datei des Punktlayers „{name}“ ist nicht zu finden. Klicken Sie im Bedienfeld „Layer“ mit der rechten Maustaste darauf und wählen Sie „Datenquelle ändern“, oder wählen Sie in Schritt 2 einen anderen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_problems.py"/>
        <source>The file of the reference grid '{name}' is not found. Choose another one in step 1.</source>
        <translation>Die Datei des Referenzrasters „{name}“ ist nicht zu finden. Wählen Sie in Schritt 1 ein anderes.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>The first start can take long while a virus scanner looks at the files: try once more. If it stays so, repair the environment on the GeoCFM page of QGIS's options.</source>
        <translation>Der erste Start kann lange dauern, während ein Virenscanner die Dateien ansieht: Versuchen Sie es noch einmal. Bleibt es so, reparieren Sie die Umgebung auf der Seite „GeoCFM“ der QGIS-Optionen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/create_form.py"/>
        <source>The folder for the engine</source>
        <translation>Der Ordner für den Rechenkern</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/runs/run_task.py"/>
        <source>The folder of the run cannot be written: {reason}</source>
        <translation>Der Ordner des Laufs kann nicht geschrieben werden: {reason}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan.py"/>
        <source>The folder of wheels {folder} does not exist.</source>
        <translation>Den Ordner mit Wheels {folder} gibt es nicht.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/lock.py"/>
        <location filename="../../geocfm_qgis/environment/place.py"/>
        <source>The folder {folder} cannot be written.</source>
        <translation>In den Ordner {folder} kann nicht geschrieben werden.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/place.py"/>
        <source>The folder {folder} holds other files.</source>
        <translation>Der Ordner {folder} enthält andere Dateien.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/create_form.py"/>
        <source>The folder {folder} holds other files. Choose a new or an empty one.</source>
        <translation>Der Ordner {folder} enthält andere Dateien. Wählen Sie einen neuen oder leeren.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/place.py"/>
        <source>The folder {folder} was not made by GeoCFM and stays as it is.</source>
        <translation>Der Ordner {folder} wurde nicht von GeoCFM angelegt und bleibt, wie er ist.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>The ground that counts as evenly searched. Surroundings of occurrences: districts without any say nothing. Whole region: districts without any count as poor; not with the paper's presets. Automatic: the preset's choice.</source>
        <translation>Das Gelände, das als gleichmäßig abgesucht gilt. Umgebung der Vorkommen: Gebiete ohne Vorkommen sagen nichts aus. Ganze Region: Gebiete ohne Vorkommen gelten als arm; nicht bei den Vorgaben des Artikels. Automatisch: wie es die Vorgabe will.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/training_parameters.py"/>
        <source>The ground that counts as evenly searched. window: the surroundings of known occurrences; districts without any say nothing. region: all training tiles, so districts without any count as poor; not with the paper's presets. auto: the preset's choice.</source>
        <translation>Das Gelände, das als gleichmäßig abgesucht gilt. window: die Umgebung bekannter Vorkommen; Gebiete ohne Vorkommen sagen nichts aus. region: alle Trainingskacheln, sodass Gebiete ohne Vorkommen als arm gelten; nicht bei den Vorgaben des Artikels. auto: wie es die Vorgabe will.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>The installation did not succeed.</source>
        <translation>Die Installation ist nicht gelungen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_menu.py"/>
        <source>The job file could not be written: {reason}</source>
        <translation>Die Auftragsdatei konnte nicht geschrieben werden: {reason}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_menu.py"/>
        <source>The job file is at {path}. To run it: geocfm run {path}</source>
        <translation>Die Auftragsdatei liegt unter {path}. Ausführen mit: geocfm run {path}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_menu.py"/>
        <source>The jobs as a file for 'geocfm run', on this computer.</source>
        <translation>Die Aufträge als Datei für „geocfm run“ auf diesem Computer.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_menu.py"/>
        <source>The jobs as a file for a server; temporary inputs are saved beside it.</source>
        <translation>Die Aufträge als Datei für einen Server; temporäre Eingaben werden daneben gespeichert.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/occurrences_step.ui"/>
        <source>The known occurrences, one or several points each. A filter set in QGIS and changes not yet saved are respected.</source>
        <translation>Die bekannten Vorkommen, jeweils ein oder mehrere Punkte. Ein in QGIS gesetzter Filter und noch nicht gespeicherte Änderungen gelten.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/export.py"/>
        <source>The layer</source>
        <translation>Der Layer</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/rasters.py"/>
        <source>The layer '{layer}' cannot be opened. Repair its data source in QGIS.</source>
        <translation>Der Layer „{layer}“ kann nicht geöffnet werden. Reparieren Sie seine Datenquelle in QGIS.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/vector_export.py"/>
        <source>The layer '{layer}' cannot be written to {path}: {reason}</source>
        <translation>Der Layer „{layer}“ kann nicht nach {path} geschrieben werden: {reason}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/raster_export.py"/>
        <source>The layer '{layer}' could not be exported to {path}. Export it as a GeoTIFF in QGIS (Export &gt; Save As), and choose that file.</source>
        <translation>Der Layer „{layer}“ konnte nicht nach {path} exportiert werden. Exportieren Sie ihn in QGIS als GeoTIFF (Exportieren &gt; Speichern als), und wählen Sie diese Datei.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/raster_export.py"/>
        <source>The layer '{layer}' does not overlap the area of interest.</source>
        <translation>Der Layer „{layer}“ überschneidet sich nicht mit dem Untersuchungsgebiet.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/raster_export.py"/>
        <source>The layer '{layer}' does not say how large its cells are. Export it as a GeoTIFF in QGIS (Export &gt; Save As), and choose that file.</source>
        <translation>Der Layer „{layer}“ sagt nicht, wie groß seine Zellen sind. Exportieren Sie ihn in QGIS als GeoTIFF (Exportieren &gt; Speichern als), und wählen Sie diese Datei.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/area.py"/>
        <source>The layer '{layer}' has no coordinate reference system. Give it one: Layer &gt; Set CRS of Layer(s).</source>
        <translation>Der Layer „{layer}“ hat kein Koordinatenbezugssystem. Geben Sie ihm eines: Layer &gt; KBS von Layer(n) setzen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/vector_source.py"/>
        <source>The layer '{layer}' has no features. Choose another one.</source>
        <translation>Der Layer „{layer}“ hat keine Objekte. Wählen Sie einen anderen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/vector_source.py"/>
        <source>The layer '{layer}' is a table without locations. If it has columns of coordinates, add it with Layer &gt; Add Layer &gt; Add Delimited Text Layer, and choose that layer.</source>
        <translation>Der Layer „{layer}“ ist eine Tabelle ohne Orte. Wenn sie Spalten mit Koordinaten hat, fügen Sie sie mit Layer &gt; Layer hinzufügen &gt; Textdatei als Layer hinzufügen hinzu, und wählen Sie diesen Layer.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/rasters.py"/>
        <source>The layer '{layer}' is a web map, which gives pictures and no values. Download the grid behind it as a GeoTIFF, or leave the layer out.</source>
        <translation>Der Layer „{layer}“ ist eine Webkarte, die Bilder liefert und keine Werte. Laden Sie das Raster dahinter als GeoTIFF herunter, oder lassen Sie den Layer weg.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/raster_export.py"/>
        <source>The layer '{layer}' is no file, and {cells} million cells are too many to export. Choose a smaller area of interest.</source>
        <translation>Der Layer „{layer}“ ist keine Datei, und {cells} Millionen Zellen sind zu viele für den Export. Wählen Sie ein kleineres Untersuchungsgebiet.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layers_step.py"/>
        <source>The layers are those of the model</source>
        <translation>Die Layer sind die des Modells</translation>
    </message>
    <message>
        <location filename="../../resources/forms/layers_step.ui"/>
        <source>The layers are those of the model, see step 3.</source>
        <translation>Die Layer sind die des Modells, siehe Schritt 3.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/rank_targets.py"/>
        <source>The layers that matter are told from the map's model and its layers together. Choose both, or neither.</source>
        <translation>Die Layer, die zählen, ergeben sich aus dem Modell der Karte und seinen Layern zusammen. Wählen Sie beides oder keines.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/target_parameters.py"/>
        <source>The layers that the map was made from.</source>
        <translation>Die Layer, aus denen die Karte gemacht ist.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/installer.py"/>
        <source>The log below says more; copy it when you report this.</source>
        <translation>Das Protokoll unten sagt mehr; kopieren Sie es, wenn Sie dies melden.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>The log below says why; copy it when you ask for help.</source>
        <translation>Das Protokoll unten sagt, warum; kopieren Sie es, wenn Sie um Hilfe bitten.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/target_parameters.py"/>
        <source>The map is smoothed by so many cells before it is cut. Empty: 1; 0: not at all.</source>
        <translation>Die Karte wird vor dem Schneiden um so viele Zellen geglättet. Leer: 1; 0: gar nicht.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/target_parameters.py"/>
        <source>The map's model: with it and its layers each target tells which layers matter.</source>
        <translation>Das Modell der Karte: Mit ihm und seinen Layern nennt jede Zielfläche die Layer, die zählen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_matches.py"/>
        <source>The model asks for a layer of this name.</source>
        <translation>Das Modell verlangt einen Layer dieses Namens.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/model_step.py"/>
        <source>The model needs layers that have no match yet: {names}. Add them to the project, or choose the layers that are meant in the Model step.</source>
        <translation>Das Modell braucht Layer, die noch nicht zugeordnet sind: {names}. Fügen Sie sie zum Projekt hinzu, oder wählen Sie im Schritt „Modell“, welche Layer gemeint sind.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/engine_algorithm.py"/>
        <source>The model needs layers that were not given: {names}. Add rasters of these names, or write under 'Bands and their names' which band is which.</source>
        <translation>Das Modell braucht Layer, die nicht angegeben sind: {names}. Fügen Sie Raster dieser Namen hinzu, oder schreiben Sie unter „Kanäle und ihre Namen“, welcher Kanal welcher ist.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/model_step.py"/>
        <source>The model would get '{band}' for several of its layers: {names}. Choose another one for all but one of them in step 3.</source>
        <translation>Das Modell bekäme „{band}“ für mehrere seiner Layer: {names}. Wählen Sie in Schritt 3 für alle bis auf einen davon einen anderen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_problems.py"/>
        <source>The name '{name}' cannot be used, as it holds one of = / \ or a comma. Double-click it and change it.</source>
        <translation>Der Name „{name}“ kann nicht verwendet werden, da er = / \ oder ein Komma enthält. Doppelklicken Sie darauf und ändern Sie ihn.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/product_row.py"/>
        <source>The name of the file in the folder of the run.</source>
        <translation>Der Name der Datei im Ordner des Laufs.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/engine_algorithm.py"/>
        <source>The name of the result must end in {suffixes}, not so: {path}</source>
        <translation>Der Name des Ergebnisses muss auf {suffixes} enden, nicht so: {path}</translation>
    </message>
    <message>
        <location filename="../../resources/forms/results_step.ui"/>
        <source>The name of this run: of its group of layers, its folder and its entry in the history.</source>
        <translation>Der Name dieses Laufs: seiner Layergruppe, seines Ordners und seines Eintrags in der Liste früherer Läufe.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>The package index could not be reached.</source>
        <translation>Der Paketindex war nicht zu erreichen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>The package index refused access.</source>
        <translation>Der Paketindex verweigerte den Zugang.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>The packages of this Python do not fit each other.</source>
        <translation>Die Pakete dieses Pythons passen nicht zueinander.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>The path of the folder is too long for Windows.</source>
        <translation>Der Pfad des Ordners ist zu lang für Windows.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan.py"/>
        <source>The path of the folder is too long for Windows. Choose one like C:\geocfm.</source>
        <translation>Der Pfad des Ordners ist zu lang für Windows. Wählen Sie einen wie C:\geocfm.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment.ui"/>
        <source>The plugin makes an environment in a folder of its own, after you agreed to its place and size.</source>
        <translation>Die Erweiterung legt eine Umgebung in einem eigenen Ordner an, nachdem Sie Ort und Größe zugestimmt haben.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>The point layer '{name}' has no coordinate system. Right-click it in the Layers panel, choose Layer CRS, Set Layer CRS, and select the one its coordinates are in.</source>
        <translation>Der Punktlayer „{name}“ hat kein Koordinatensystem. Klicken Sie im Bedienfeld „Layer“ mit der rechten Maustaste darauf, wählen Sie „Layer-KBS“, „Layer-KBS setzen“ und dort das System seiner Koordinaten.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>The point layer '{name}' has no features. Choose another in step 2, or widen its filter in QGIS.</source>
        <translation>Der Punktlayer „{name}“ hat keine Objekte. Wählen Sie in Schritt 2 einen anderen, oder erweitern Sie seinen Filter in QGIS.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>The point layer '{name}' has no field '{field}'. Choose another field in step 2, or untick the filter.</source>
        <translation>Der Punktlayer „{name}“ hat kein Feld „{field}“. Wählen Sie in Schritt 2 ein anderes Feld, oder entfernen Sie das Häkchen beim Filter.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>The point layer that was chosen is not in the project. Choose another in step 2.</source>
        <translation>Der gewählte Punktlayer ist nicht im Projekt. Wählen Sie in Schritt 2 einen anderen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrences_step.py"/>
        <source>The points are being counted…</source>
        <translation>Die Punkte werden gezählt…</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/area_choice.py"/>
        <source>The polygon layer '{name}' has no coordinate system. Right-click it in the Layers panel and choose Layer CRS, Set Layer CRS.</source>
        <translation>Der Polygonlayer „{name}“ hat kein Koordinatensystem. Klicken Sie im Bedienfeld „Layer“ mit der rechten Maustaste darauf und wählen Sie „Layer-KBS“, „Layer-KBS setzen“.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/area_choice.py"/>
        <source>The polygon layer '{name}' is empty. Draw the area of interest in it, or choose another layer.</source>
        <translation>Der Polygonlayer „{name}“ ist leer. Zeichnen Sie das Untersuchungsgebiet hinein, oder wählen Sie einen anderen Layer.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/area_choice.py"/>
        <source>The polygons of '{name}' cannot be read. Repair the layer in the Layers panel, or choose another area of interest.</source>
        <translation>Die Polygone von „{name}“ können nicht gelesen werden. Reparieren Sie den Layer im Bedienfeld „Layer“, oder wählen Sie ein anderes Untersuchungsgebiet.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>The processor of this computer does not know an instruction that PyTorch uses.</source>
        <translation>Der Prozessor dieses Computers kennt einen Befehl nicht, den PyTorch verwendet.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>The project has no point layer. Add the known occurrences to it: a GeoPackage, a shapefile, or a table with coordinates (Layer, Add Layer, Add Delimited Text Layer).</source>
        <translation>Das Projekt hat keinen Punktlayer. Fügen Sie die bekannten Vorkommen hinzu: ein GeoPackage, ein Shapefile oder eine Tabelle mit Koordinaten (Layer, Layer hinzufügen, Textdatei als Layer hinzufügen).</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_problems.py"/>
        <source>The project has no raster to learn from. Add some with 'Add from file…' in step 1.</source>
        <translation>Das Projekt hat kein Raster, aus dem gelernt werden kann. Fügen Sie in Schritt 1 welche mit „Aus Datei hinzufügen…“ hinzu.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>The proxy asks for a user name and password.</source>
        <translation>Der Proxy verlangt einen Benutzernamen und ein Passwort.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>The proxy could not be reached, or refused the connection.</source>
        <translation>Der Proxy war nicht zu erreichen oder verweigerte die Verbindung.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/channels.py"/>
        <source>The raster '{layer}' has no band {band}; it has {count}.</source>
        <translation>Das Raster „{layer}“ hat keinen Kanal {band}; es hat {count}.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_problems.py"/>
        <source>The raster chosen as reference grid is not in the project. Choose another one in step 1.</source>
        <translation>Das als Referenzraster gewählte Raster ist nicht im Projekt. Wählen Sie in Schritt 1 ein anderes.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/job_inputs.py"/>
        <source>The raster of the reference grid cannot be opened. Choose another one.</source>
        <translation>Das Raster des Referenzrasters kann nicht geöffnet werden. Wählen Sie ein anderes.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/layers_step.ui"/>
        <source>The rasters of the project and their bands. Ticked ones are learned from, in this order. Drag a row to move it; double-click a name to change it.</source>
        <translation>Die Raster des Projekts und ihre Kanäle. Aus angekreuzten wird gelernt, in dieser Reihenfolge. Ziehen Sie eine Zeile, um sie zu verschieben; doppelklicken Sie auf einen Namen, um ihn zu ändern.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/installation.py"/>
        <source>The repair was cancelled; the environment is not complete.</source>
        <translation>Die Reparatur wurde abgebrochen; die Umgebung ist nicht vollständig.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/check_data.py"/>
        <source>The report cannot be written to {path} ({reason}).</source>
        <translation>Der Bericht kann nicht nach {path} geschrieben werden ({reason}).</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/report_algorithm.py"/>
        <source>The report is ready to be read.</source>
        <translation>Der Bericht kann gelesen werden.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/engine_algorithm.py"/>
        <source>The result would replace its own input {path}. Choose another name.</source>
        <translation>Das Ergebnis würde seine eigene Eingabe {path} ersetzen. Wählen Sie einen anderen Namen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/run_layers.py"/>
        <source>The result {path} is there, but cannot be shown as a layer.</source>
        <translation>Das Ergebnis {path} ist da, kann aber nicht als Layer gezeigt werden.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <location filename="../../geocfm_qgis/panel/run_end.py"/>
        <source>The results are the topmost group of layers.</source>
        <translation>Die Ergebnisse sind die oberste Layergruppe.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_menu.py"/>
        <source>The runs of this project.</source>
        <translation>Die Läufe dieses Projekts.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>The same seed gives the same result.</source>
        <translation>Derselbe Startwert ergibt dasselbe Ergebnis.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/plugin.py"/>
        <source>The sample data are in the project: four rasters and the gold deposits.</source>
        <translation>Die Beispieldaten sind im Projekt: vier Raster und die Goldlagerstätten.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layers_step.py"/>
        <source>The set '{name}' is deleted.</source>
        <translation>Der Satz „{name}“ ist gelöscht.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layers_step.py"/>
        <source>The set '{name}' is loaded, except for: {missing}. Their files are not where they were; add them with 'Add from file…'.</source>
        <translation>Der Satz „{name}“ ist geladen, außer: {missing}. Deren Dateien sind nicht mehr an ihrem Ort; fügen Sie sie mit „Aus Datei hinzufügen…“ hinzu.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layers_step.py"/>
        <source>The set '{name}' is loaded.</source>
        <translation>Der Satz „{name}“ ist geladen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layers_step.py"/>
        <source>The set '{name}' is saved.</source>
        <translation>Der Satz „{name}“ ist gespeichert.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/model_step.py"/>
        <source>The setting '{text}' has no value. Write it like network.width=32 under Advanced.</source>
        <translation>Die Einstellung „{text}“ hat keinen Wert. Schreiben Sie sie unter „Erweitert“ zum Beispiel als network.width=32.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>The side of the squares of ground that the model learns from, at least 16 cells.</source>
        <translation>Die Seite der Geländequadrate, aus denen das Modell lernt, mindestens 16 Zellen.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>The side of the tiles that are kept apart to judge the model, at least 16 cells.</source>
        <translation>Die Seite der Kacheln, die zur Beurteilung des Modells zurückgehalten werden, mindestens 16 Zellen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>The standalone Python could not be downloaded.</source>
        <translation>Das eigenständige Python konnte nicht heruntergeladen werden.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/installation.py"/>
        <source>The standalone Python did not arrive.</source>
        <translation>Das eigenständige Python ist nicht angekommen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>The system could not load a library of {package}.</source>
        <translation>Das System konnte eine Bibliothek von {package} nicht laden.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>The system does not allow {python} to be started.</source>
        <translation>Das System erlaubt nicht, {python} zu starten.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>The system ended the engine, most probably because the memory was not enough.</source>
        <translation>Das System hat den Rechenkern beendet, höchstwahrscheinlich, weil der Speicher nicht reichte.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_menu.py"/>
        <source>The tutorial.</source>
        <translation>Die Einführung.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/target_parameters.py"/>
        <source>The uncertainty of that map; each target tells how uncertain it is.</source>
        <translation>Die Unsicherheit dieser Karte; jede Zielfläche nennt, wie unsicher sie ist.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/page.py"/>
        <source>The variable {name} names it, and outweighs what is chosen here: {python}</source>
        <translation>Die Variable {name} nennt es und geht dem hier gewählten vor: {python}</translation>
    </message>
    <message>
        <location filename="../../resources/forms/area_choice.ui"/>
        <source>The whole grid</source>
        <translation>Das ganze Raster</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>The {count} features of '{name}' that were selected for this run cannot be selected again. Select them on the map, or untick 'Selected features only' in step 2.</source>
        <translation>Die {count} Objekte von „{name}“, die für diesen Lauf gewählt waren, können nicht wieder gewählt werden. Wählen Sie sie auf der Karte, oder entfernen Sie das Häkchen bei „Nur gewählte Objekte“ in Schritt 2.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>The {count} most frequent values are listed.</source>
        <translation>Die {count} häufigsten Werte sind aufgeführt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/results_step.py"/>
        <source>There are results of the name '{name}' already. Choose another name, or tick 'Replace results that are there'.</source>
        <translation>Ergebnisse mit dem Namen „{name}“ gibt es schon. Wählen Sie einen anderen Namen, oder kreuzen Sie „Vorhandene Ergebnisse ersetzen“ an.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/export.py"/>
        <source>There is a file {path} already. Choose another name.</source>
        <translation>Eine Datei {path} gibt es schon. Wählen Sie einen anderen Namen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/train_model.py"/>
        <source>There is a model {path} already. Choose another name, or tick “{replace}”.</source>
        <translation>Ein Modell {path} gibt es schon. Wählen Sie einen anderen Namen, oder kreuzen Sie „{replace}“ an.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/job_inputs.py"/>
        <source>There is no device '{device}'. Write auto, cpu, cuda, cuda:1 or mps.</source>
        <translation>Ein Gerät „{device}“ gibt es nicht. Schreiben Sie auto, cpu, cuda, cuda:1 oder mps.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/panel.py"/>
        <source>There is no engine to compute with. Press 'Set up the engine…' above.</source>
        <translation>Es gibt keinen Rechenkern, mit dem gerechnet werden kann. Drücken Sie oben „Rechenkern einrichten…“.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/page.py"/>
        <source>There is no engine yet.</source>
        <translation>Es gibt noch keinen Rechenkern.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/run_job_file.py"/>
        <source>There is no job file {path}. Choose a .toml or .json file.</source>
        <translation>Eine Auftragsdatei {path} gibt es nicht. Wählen Sie eine .toml- oder .json-Datei.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/job_inputs.py"/>
        <source>There is no layer '{name}' that could hold classes; there are: {names}.</source>
        <translation>Einen Layer „{name}“, der Klassen enthalten könnte, gibt es nicht; vorhanden sind: {names}.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/checkpoint_card.py"/>
        <source>There is no model at {path}. Choose a .safetensors file.</source>
        <translation>Unter {path} liegt kein Modell. Wählen Sie eine .safetensors-Datei.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/rank_targets.py"/>
        <source>There is no raster {path}. Choose another one.</source>
        <translation>Es gibt kein Raster {path}. Wählen Sie ein anderes.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/runs/history.py"/>
        <source>These inputs are temporary files, gone when QGIS closes: {names}</source>
        <translation>Diese Eingaben sind temporäre Dateien, weg, wenn QGIS schließt: {names}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_problems.py"/>
        <source>These layers are not in the project: {names}. Add them with 'Add from file…', or change the ticks to go on without them.</source>
        <translation>Diese Layer sind nicht im Projekt: {names}. Fügen Sie sie mit „Aus Datei hinzufügen…“ hinzu, oder ändern Sie die Häkchen, um ohne sie weiterzumachen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/job_inputs.py"/>
        <source>These rasters cannot be opened: {names}. Check that their files are there.</source>
        <translation>Diese Raster können nicht geöffnet werden: {names}. Prüfen Sie, ob ihre Dateien da sind.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/plugin.py"/>
        <source>These sample layers could not be opened: {names}. Install the plugin anew.</source>
        <translation>Diese Beispiellayer konnten nicht geöffnet werden: {names}. Installieren Sie die Erweiterung neu.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>This Python cannot make environments: its module venv is missing.</source>
        <translation>Dieses Python kann keine Umgebungen anlegen: Sein Modul venv fehlt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>This Python is {version}; GeoCFM's engine needs {minimum} or newer.</source>
        <translation>Dieses Python ist {version}; der Rechenkern von GeoCFM braucht {minimum} oder neuer.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>This Python lacks packages that the engine needs: {names}.</source>
        <translation>Diesem Python fehlen Pakete, die der Rechenkern braucht: {names}.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>This field holds too many different numbers to tick. Right-click the layer in the Layers panel and choose Filter, for example: "{field}" &gt; 5.</source>
        <translation>Dieses Feld enthält zu viele verschiedene Zahlen zum Ankreuzen. Klicken Sie im Bedienfeld „Layer“ mit der rechten Maustaste auf den Layer und wählen Sie „Filtern“, zum Beispiel: "{field}" &gt; 5.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>This field is empty in all features.</source>
        <translation>Dieses Feld ist in allen Objekten leer.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/provenance.py"/>
        <source>This file</source>
        <translation>Diese Datei</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/results_step.py"/>
        <source>This is made from the prospectivity raster: tick it.</source>
        <translation>Das wird aus dem Prospektivitätsraster gemacht: Haken Sie es an.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/results_step.py"/>
        <source>This needs occurrences: choose them in the Occurrences step.</source>
        <translation>Dies braucht Vorkommen: Wählen Sie sie im Schritt „Vorkommen“.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>This run cannot be repeated: what was chosen for it is not all there.</source>
        <translation>Dieser Lauf kann nicht wiederholt werden: Was für ihn gewählt wurde, ist nicht vollständig da.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/page.py"/>
        <source>This version of the plugin needs other packages than are installed.</source>
        <translation>Diese Version der Erweiterung braucht andere Pakete als die installierten.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/layers_step.ui"/>
        <source>Tick all</source>
        <translation>Alle ankreuzen</translation>
    </message>
    <message>
        <location filename="../../resources/forms/layers_step.ui"/>
        <source>Tick every raster that can be used, except results of earlier runs.</source>
        <translation>Alle verwendbaren Raster ankreuzen, außer den Ergebnissen früherer Läufe.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>Tick more values of the filter in step 2.</source>
        <translation>Kreuzen Sie in Schritt 2 mehr Werte des Filters an.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>Tick the values to keep; while none is ticked, all are.</source>
        <translation>Kreuzen Sie die Werte an, die bleiben; solange keiner angekreuzt ist, bleiben alle.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/channel_tree.py"/>
        <source>Tick this where the values are codes, such as those of rock types: each code is then learned for itself.</source>
        <translation>Kreuzen Sie dies an, wo die Werte Codes sind, etwa von Gesteinsarten: Jeder Code wird dann für sich gelernt.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_create.ui"/>
        <source>To fill such a folder, run a command on a like computer that has a network and the same version of Python.</source>
        <translation>Um einen solchen Ordner zu füllen, führen Sie einen Befehl auf einem gleichartigen Computer aus, der ein Netzwerk und dieselbe Python-Version hat.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Train a new model</source>
        <translation>Ein neues Modell trainieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>Train as long as the preset says</source>
        <translation>So lange trainieren, wie die Vorgabe sagt</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Train for</source>
        <translation>Trainingsdauer</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>Train for at most {iterations}</source>
        <translation>Höchstens {iterations} trainieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>Train for at most {iterations} or {time}</source>
        <translation>Höchstens {iterations} oder {time} trainieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>Train for {time}</source>
        <translation>{time} trainieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/train_model.py"/>
        <location filename="../../geocfm_qgis/wording.py"/>
        <source>Train model</source>
        <translation>Modell trainieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../geocfm_qgis/panel/results_step.py"/>
        <source>Trained model</source>
        <translation>Trainiertes Modell</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/provenance.py"/>
        <source>Trained on: {count} occurrences of {source} {filter}</source>
        <translation>Trainiert mit: {count} Vorkommen von {source} {filter}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/stage_names.py"/>
        <source>Training</source>
        <translation>Training</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/page.py"/>
        <source>Training and mapping need one. Choose one of the two ways below.</source>
        <translation>Training und Kartierung brauchen einen. Wählen Sie unten einen der beiden Wege.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Training ends after so many steps, or after its minutes, whichever comes first. A result by iterations alone repeats to the last bit.</source>
        <translation>Das Training endet nach so vielen Schritten oder nach seinen Minuten, je nachdem, was zuerst kommt. Ein Ergebnis allein nach Iterationen wiederholt sich bis zum letzten Bit.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/training_parameters.py"/>
        <source>Training ends without mapping the region and without a report.</source>
        <translation>Das Training endet, ohne die Region zu kartieren und ohne Bericht.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/check_report.py"/>
        <source>Training is not possible like this.</source>
        <translation>So ist kein Training möglich.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/check_data.py"/>
        <source>Training is possible</source>
        <translation>Training ist möglich</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/check_report.py"/>
        <source>Training is possible.</source>
        <translation>Training ist möglich.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/run_view.ui"/>
        <source>Training loss</source>
        <translation>Trainingsverlust</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>Try again; if it happens once more, ask who runs the proxy or the package index.</source>
        <translation>Versuchen Sie es noch einmal; geschieht es wieder, fragen Sie die Betreiber des Proxys oder des Paketindex.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/plugin.py"/>
        <source>Tutorial</source>
        <translation>Einführung</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/channels.py"/>
        <source>Two layers have the name '{name}'. Rename one of them in the Layers panel, or give the bands names of their own.</source>
        <translation>Zwei Layer haben den Namen „{name}“. Benennen Sie einen im Bedienfeld „Layer“ um, oder geben Sie den Kanälen eigene Namen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/results_step.py"/>
        <source>Two results have the same name of file. Change one of them.</source>
        <translation>Zwei Ergebnisse haben denselben Dateinamen. Ändern Sie einen davon.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <location filename="../../geocfm_qgis/results/run_layers.py"/>
        <source>Uncertainty</source>
        <translation>Unsicherheit</translation>
    </message>
    <message>
        <location filename="../../resources/forms/layers_step.ui"/>
        <source>Untick all rasters.</source>
        <translation>Die Häkchen aller Raster entfernen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan_text.py"/>
        <source>Update</source>
        <translation>Aktualisieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan_text.py"/>
        <source>Update installs what this version of the plugin needs, up to {size}.</source>
        <translation>„Aktualisieren“ installiert, was diese Version der Erweiterung braucht, bis zu {size}.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Use a trained one</source>
        <translation>Ein trainiertes verwenden</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <location filename="../../geocfm_qgis/panel/run_end.py"/>
        <source>Use its model</source>
        <translation>Sein Modell verwenden</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/model_step.py"/>
        <source>Use the example: gold in the Murchison</source>
        <translation>Das Beispiel verwenden: Gold am Murchison</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_end.py"/>
        <source>Use the model so far</source>
        <translation>Das bisherige Modell verwenden</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment.ui"/>
        <source>Use this Python</source>
        <translation>Dieses Python verwenden</translation>
    </message>
    <message>
        <location filename="../../resources/forms/occurrences_step.ui"/>
        <source>Values of the field with the number of features that have them. Several in one cell, such as "Au; Cu", count one by one.</source>
        <translation>Werte des Feldes mit der Anzahl der Objekte, die sie haben. Mehrere in einer Zelle, etwa "Au; Cu", zählen einzeln.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/lock.py"/>
        <source>Wait until it is done, or cancel it there.</source>
        <translation>Warten Sie, bis es fertig ist, oder brechen Sie es dort ab.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_end.py"/>
        <source>What had finished is the topmost group of layers.</source>
        <translation>Was fertig wurde, ist die oberste Layergruppe.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/rasters.py"/>
        <source>What is set for the layer '{layer}' (no-data values, how it is opened) cannot be handed on. Export it as a GeoTIFF in QGIS (Export &gt; Save As), and choose that file.</source>
        <translation>Was für den Layer „{layer}“ eingestellt ist (Leerwerte, wie er geöffnet wird), kann nicht weitergegeben werden. Exportieren Sie ihn in QGIS als GeoTIFF (Exportieren &gt; Speichern als), und wählen Sie diese Datei.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/options.ui"/>
        <source>What new jobs compute on, unless they say otherwise.</source>
        <translation>Worauf neue Aufträge rechnen, wenn sie nichts anderes sagen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/check_report.py"/>
        <source>What stands in the way</source>
        <translation>Was im Weg steht</translation>
    </message>
    <message>
        <location filename="../../resources/forms/preflight.ui"/>
        <source>What the engine found</source>
        <translation>Was der Rechenkern gefunden hat</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>What the engine found on this computer. Automatic takes the fastest.</source>
        <translation>Was der Rechenkern auf diesem Computer gefunden hat. „Automatisch“ nimmt das schnellste.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/check_report.py"/>
        <source>What there is</source>
        <translation>Was da ist</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/check_report.py"/>
        <source>What to look at</source>
        <translation>Worauf zu achten ist</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>When</source>
        <translation>Wann</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Where chance begins. Another seed gives another model of the same quality.</source>
        <translation>Wo der Zufall beginnt. Ein anderer Startwert ergibt ein anderes Modell derselben Güte.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>Where the model's networks disagree (choose 3 or more in the Model step), and where the layers lie outside what it has seen.</source>
        <translation>Wo die Netze des Modells uneins sind (wählen Sie 3 oder mehr im Schritt Modell), und wo die Layer außerhalb dessen liegen, was es gesehen hat.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/stage_names.py"/>
        <source>Which layers matter</source>
        <translation>Welche Layer zählen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>Which layers matter is not measured, which saves time.</source>
        <translation>Welche Layer zählen, wird nicht gemessen; das spart Zeit.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan.py"/>
        <source>While it installs, {needed} are needed on the disk of the folder, and {free} are free. Choose a folder on another disk or make room.</source>
        <translation>Während der Installation werden auf der Festplatte des Ordners {needed} gebraucht, und {free} sind frei. Wählen Sie einen Ordner auf einer anderen Festplatte, oder schaffen Sie Platz.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/model_step.py"/>
        <source>Whole region</source>
        <translation>Ganze Region</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>Window</source>
        <translation>Fenster</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>Windows could not load a library of PyTorch or of another package.</source>
        <translation>Windows konnte eine Bibliothek von PyTorch oder einem anderen Paket nicht laden.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>Windows could not load a library of {package}.</source>
        <translation>Windows konnte eine Bibliothek von {package} nicht laden.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>With the model {name}: {products}.</source>
        <translation>Mit dem Modell {name}: {products}.</translation>
    </message>
    <message>
        <location filename="../../resources/forms/area_choice.ui"/>
        <source>Within an extent</source>
        <translation>Innerhalb einer Ausdehnung</translation>
    </message>
    <message>
        <location filename="../../resources/forms/area_choice.ui"/>
        <source>Within polygons</source>
        <translation>Innerhalb von Polygonen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>Without a report</source>
        <translation>Ohne Bericht</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>Without the importance of layers</source>
        <translation>Ohne Bedeutung der Layer</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_events.py"/>
        <source>Worth a look: {sentence}</source>
        <translation>Beachtenswert: {sentence}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/event_feedback.py"/>
        <source>Written: {path} ({description})</source>
        <translation>Geschrieben: {path} ({description})</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_events.py"/>
        <source>Wrote {path}: {description}</source>
        <translation>{path} geschrieben: {description}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>X field</source>
        <translation>X-Feld</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>Y field</source>
        <translation>Y-Feld</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/page.py"/>
        <source>You can go on working, and close this window; it continues meanwhile.</source>
        <translation>Sie können weiterarbeiten und dieses Fenster schließen; es geht unterdessen weiter.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_end.py"/>
        <location filename="../../geocfm_qgis/panel/run_keeper.py"/>
        <source>Zoom to result</source>
        <translation>Auf Ergebnis zoomen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/card_text.py"/>
        <source>an unknown CRS</source>
        <translation>ein unbekanntes KBS</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>any distance</source>
        <translation>beliebig</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>as the preset says</source>
        <translation>wie die Vorgabe sagt</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/training_parameters.py"/>
        <source>auto is quick without a graphics card and full with one; the others are the paper's.</source>
        <translation>auto ist „Schnell“ ohne und „Voll“ mit Grafikkarte; die anderen sind die des Artikels.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/parameters.py"/>
        <source>auto, cpu, cuda, cuda:1 or mps. Empty: as set in QGIS's options.</source>
        <translation>auto, cpu, cuda, cuda:1 oder mps. Leer: wie in den QGIS-Optionen eingestellt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/samples_style.py"/>
        <source>below the mean density</source>
        <translation>unter der mittleren Dichte</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/options_page.py"/>
        <source>beside the project</source>
        <translation>neben dem Projekt</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>broken off</source>
        <translation>abgebrochen wegen eines Fehlers</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>cancelled</source>
        <translation>abgebrochen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/raster_facts.py"/>
        <source>cannot be used</source>
        <translation>nicht verwendbar</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/target_parameters.py"/>
        <location filename="../../geocfm_qgis/algorithms/training_parameters.py"/>
        <source>cells</source>
        <translation>Zellen</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>chosen from the data</source>
        <translation>nach den Daten gewählt</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/card_text.py"/>
        <source>degree</source>
        <translation>Grad</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>draw {draws} x {points} points</source>
        <translation>{draws} x {points} Punkte ziehen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>evaluate the model</source>
        <translation>das Modell bewerten</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>finished</source>
        <translation>fertig</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/training_parameters.py"/>
        <source>folds</source>
        <translation>Gruppen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/sample_data.py"/>
        <source>gold deposits</source>
        <translation>Goldlagerstätten</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/sample_data.py"/>
        <source>greenstone</source>
        <translation>Grünstein</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/run_layers.py"/>
        <source>how much the networks differ, in % of the density</source>
        <translation>wie sehr die Netze abweichen, in % der Dichte</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_create.ui"/>
        <source>http://host:port or http://user:password@host:port. Empty: the proxy of QGIS's network settings, or else the system's. It is not remembered.</source>
        <translation>http://host:port oder http://user:password@host:port. Leer: der Proxy der Netzwerkeinstellungen von QGIS, sonst der des Systems. Er wird nicht gemerkt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>in the best</source>
        <translation>in den besten</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_choice.py"/>
        <source>layer</source>
        <translation>Layer</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/check_report.py"/>
        <source>left out by the filter</source>
        <translation>durch den Filter ausgelassen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/check_report.py"/>
        <source>left out, in a cell that already had one</source>
        <translation>ausgelassen, in einer Zelle, die schon eines hatte</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/uncertainty_style.py"/>
        <source>like what the model has seen</source>
        <translation>wie das, was das Modell gesehen hat</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/loss_curve.py"/>
        <source>loss</source>
        <translation>Verlust</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/card_text.py"/>
        <source>m</source>
        <translation>m</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>map {region}</source>
        <translation>{region} kartieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/training_parameters.py"/>
        <source>minutes</source>
        <translation>Minuten</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/model_step.py"/>
        <source>model file, .safetensors</source>
        <translation>Modelldatei, .safetensors</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/samples_style.py"/>
        <source>more than {low} × mean density</source>
        <translation>mehr als {low} × mittlere Dichte</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>network.width=32, training.batch=4</source>
        <translation>network.width=32, training.batch=4</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>networks disagree by {value} %</source>
        <translation>Netze weichen um {value} % ab</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/raster_facts.py"/>
        <source>no CRS</source>
        <translation>kein KBS</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>no limit</source>
        <translation>keine Grenze</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/create_form.py"/>
        <source>none, or the system's</source>
        <translation>keiner, oder der des Systems</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/raster_facts.py"/>
        <source>not found</source>
        <translation>nicht gefunden</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/model_step.py"/>
        <source>not known</source>
        <translation>nicht bekannt</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/history_view.py"/>
        <source>not possible</source>
        <translation>nicht möglich</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/training_parameters.py"/>
        <source>number</source>
        <translation>Anzahl</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/create_form.py"/>
        <source>of QGIS's settings: {proxy}</source>
        <translation>der QGIS-Einstellungen: {proxy}</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>of the reference layer</source>
        <translation>des Referenzlayers</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/loss_curve.py"/>
        <source>of the training</source>
        <translation>des Trainings</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/lock.py"/>
        <source>of unknown number</source>
        <translation>von unbekannter Anzahl</translation>
    </message>
    <message>
        <location filename="../../resources/forms/model_step.ui"/>
        <source>off</source>
        <translation>aus</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/check_report.py"/>
        <source>on cells without data</source>
        <translation>auf Zellen ohne Daten</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/steps.py"/>
        <source>only needed to train or evaluate</source>
        <translation>nur zum Trainieren oder Bewerten nötig</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/sample_data.py"/>
        <source>other rocks</source>
        <translation>andere Gesteine</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/check_report.py"/>
        <source>outside the grid</source>
        <translation>außerhalb des Rasters</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/uncertainty_style.py"/>
        <source>outside what the model has seen</source>
        <translation>außerhalb dessen, was das Modell gesehen hat</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/raster_facts.py"/>
        <source>own CRS</source>
        <translation>eigenes KBS</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/raster_facts.py"/>
        <source>picture</source>
        <translation>Bild</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/failures.py"/>
        <source>pip cannot use a SOCKS proxy here.</source>
        <translation>pip kann hier keinen SOCKS-Proxy verwenden.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/lock.py"/>
        <source>process {number}, {program}, on {host}</source>
        <translation>Prozess {number}, {program}, auf {host}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>rank up to {number} targets</source>
        <translation>bis zu {number} Zielflächen ordnen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>rank {first}</source>
        <translation>Rang {first}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>rank {first} and below</source>
        <translation>Rang {first} und darunter</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>ranks {first} to {last}</source>
        <translation>Ränge {first} bis {last}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/check_report.py"/>
        <source>read</source>
        <translation>gelesen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/run_layers.py"/>
        <source>relative density (1 = regional mean)</source>
        <translation>relative Dichte (1 = Mittel der Region)</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/raster_facts.py"/>
        <source>result</source>
        <translation>Ergebnis</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/products.py"/>
        <source>tell how uncertain it is</source>
        <translation>ihre Unsicherheit nennen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>the engine's Python</source>
        <translation>das Python des Rechenkerns</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>the occurrences</source>
        <translation>die Vorkommen</translation>
    </message>
    <message>
        <location filename="../../resources/forms/environment_create.ui"/>
        <source>the one that pip is set up for</source>
        <translation>der, für den pip eingerichtet ist</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>the region</source>
        <translation>die Region</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan_text.py"/>
        <source>the standalone Python</source>
        <translation>das eigenständige Python</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/run_view.py"/>
        <source>this step: {time} left</source>
        <translation>dieser Schritt: noch {time}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/prospectivity_style.py"/>
        <source>top {percent} % of the area</source>
        <translation>beste {percent} % der Fläche</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/model_step.py"/>
        <source>train by the preset</source>
        <translation>nach der Vorgabe trainieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/model_step.py"/>
        <source>train for at most {count} iterations</source>
        <translation>höchstens {count} Iterationen trainieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/model_step.py"/>
        <source>train for {minutes} min</source>
        <translation>{minutes} min trainieren</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/loss_curve.py"/>
        <source>training {}</source>
        <translation>Training {}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/prospectivity_style.py"/>
        <location filename="../../geocfm_qgis/results/uncertainty_style.py"/>
        <source>up to {value} (transparent)</source>
        <translation>bis {value} (durchsichtig)</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/check_report.py"/>
        <source>used</source>
        <translation>verwendet</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/loss_curve.py"/>
        <source>validation {}</source>
        <translation>Validierung {}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/check_report.py"/>
        <source>without a location</source>
        <translation>ohne Ort</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layers_step.py"/>
        <source>{bands} bands of 1 raster</source>
        <translation>{bands} Kanäle von 1 Raster</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layers_step.py"/>
        <source>{bands} bands of {count} rasters</source>
        <translation>{bands} Kanäle von {count} Rastern</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>{budget} on {layers} and {occurrences}</source>
        <translation>{budget} ({layers}, {occurrences})</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/raster_facts.py"/>
        <source>{columns} columns x {rows} rows</source>
        <translation>{columns} Spalten x {rows} Zeilen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>{count} by the filter</source>
        <translation>{count} durch den Filter</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layers_step.py"/>
        <source>{count} cell sizes, aligned while reading</source>
        <translation>{count} Zellgrößen, beim Lesen angeglichen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layers_step.py"/>
        <source>{count} coordinate systems, aligned while reading</source>
        <translation>{count} Koordinatensysteme, beim Lesen angeglichen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>{count} folds</source>
        <translation>{count} Gruppen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>{count} in a cell that already has one</source>
        <translation>{count} in einer Zelle, die schon eines hat</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>{count} iterations</source>
        <translation>{count} Iterationen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>{count} layers</source>
        <translation>{count} Layer</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>{count} minutes</source>
        <translation>{count} Minuten</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>{count} networks</source>
        <translation>{count} Netze</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>{count} not selected</source>
        <translation>{count} nicht gewählt</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>{count} occurrences</source>
        <translation>{count} Vorkommen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_problems.py"/>
        <source>{count} of the ticked layers have the name '{name}'. Double-click one of the names and change it.</source>
        <translation>{count} der angekreuzten Layer haben den Namen „{name}“. Doppelklicken Sie auf einen der Namen und ändern Sie ihn.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>{count} outside the grid or the area</source>
        <translation>{count} außerhalb des Rasters oder Gebiets</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layers_step.py"/>
        <source>{count} rasters</source>
        <translation>{count} Raster</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>{count} without a location</source>
        <translation>{count} ohne Ort</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/options_page.py"/>
        <source>{device}, not found now</source>
        <translation>{device}, gerade nicht gefunden</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>{first} and {last}</source>
        <translation>{first} und {last}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/durations.py"/>
        <source>{hours} h {minutes} min</source>
        <translation>{hours} h {minutes} min</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/labels.py"/>
        <source>{label} ({unit})</source>
        <translation>{label} ({unit})</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/samples_style.py"/>
        <source>{low} to {high} × mean density</source>
        <translation>{low} bis {high} × mittlere Dichte</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/durations.py"/>
        <source>{minutes} min {seconds} s</source>
        <translation>{minutes} min {seconds} s</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_choice.py"/>
        <source>{name} (not in the project)</source>
        <translation>{name} (nicht im Projekt)</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/run_layers.py"/>
        <source>{name} (temporary)</source>
        <translation>{name} (temporär)</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/layer_matches.py"/>
        <source>{name} ({layer}, band {band})</source>
        <translation>{name} ({layer}, Kanal {band})</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/job_inputs.py"/>
        <source>{name}: the raster cannot be opened. Choose another one.</source>
        <translation>{name}: Das Raster lässt sich nicht öffnen. Wählen Sie ein anderes.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan.py"/>
        <source>{number:.0f} MB</source>
        <translation>{number:.0f} MB</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan.py"/>
        <source>{number:.1f} GB</source>
        <translation>{number:.1f} GB</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/export.py"/>
        <source>{path} could not be written ({reason}). Choose another folder.</source>
        <translation>{path} konnte nicht geschrieben werden ({reason}). Wählen Sie einen anderen Ordner.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/export.py"/>
        <source>{path} is no GeoTIFF on this computer, so it cannot be copied as it is.</source>
        <translation>{path} ist kein GeoTIFF auf diesem Computer und kann deshalb nicht unverändert kopiert werden.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/checkpoint_card.py"/>
        <source>{path} is no model of GeoCFM, or it is damaged. Choose a .safetensors file that GeoCFM's training has written.</source>
        <translation>{path} ist kein Modell von GeoCFM oder beschädigt. Wählen Sie eine .safetensors-Datei, die das Training von GeoCFM geschrieben hat.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/export.py"/>
        <source>{path} is the file that is to be exported. Choose another name.</source>
        <translation>{path} ist die Datei, die exportiert werden soll. Wählen Sie einen anderen Namen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>{python} is QGIS itself, not a Python.</source>
        <translation>{python} ist QGIS selbst, kein Python.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>{python} is a folder, not a Python program.</source>
        <translation>{python} ist ein Ordner, kein Python-Programm.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>{python} is not a Python that can run GeoCFM's engine.</source>
        <translation>{python} ist kein Python, das den Rechenkern von GeoCFM ausführen kann.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>{python} is not a Python that works.</source>
        <translation>{python} ist kein Python, das funktioniert.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/engine_troubles.py"/>
        <source>{python} is only a link to the Microsoft Store, not a Python.</source>
        <translation>{python} ist nur ein Verweis auf den Microsoft Store, kein Python.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>{rows} x {columns} cells</source>
        <translation>{rows} x {columns} Zellen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/durations.py"/>
        <source>{seconds} s</source>
        <translation>{seconds} s</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan_text.py"/>
        <source>{size} are free there.</source>
        <translation>{size} sind dort frei.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/work_view.py"/>
        <source>{size} downloaded</source>
        <translation>{size} heruntergeladen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/summary.py"/>
        <source>{start}, then {products}.</source>
        <translation>{start}, dann {products}.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/algorithms/event_feedback.py"/>
        <source>{time} left</source>
        <translation>noch {time}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan_text.py"/>
        <source>{title}, from {source}.</source>
        <translation>{title}, aus {source}.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/environment/plan_text.py"/>
        <source>{title}.</source>
        <translation>{title}.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>{used} of the first {read} points will be used; the others were not counted.</source>
        <translation>{used} der ersten {read} Punkte werden verwendet; die übrigen wurden nicht gezählt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrences_step.py"/>
        <source>{used} of {read} points</source>
        <translation>{used} von {read} Punkten</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/panel/occurrence_words.py"/>
        <source>{used} of {read} points will be used.</source>
        <translation>{used} von {read} Punkten werden verwendet.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>{value} % of all expected occurrences</source>
        <translation>{value} % aller erwarteten Vorkommen</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>{value} % outside what the model has seen</source>
        <translation>{value} % außerhalb dessen, was das Modell gesehen hat</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/prospectivity_style.py"/>
        <source>{value} everywhere</source>
        <translation>überall {value}</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>{value} km to the nearest known one</source>
        <translation>{value} km bis zum nächsten bekannten</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>{value} km²</source>
        <translation>{value} km²</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>{value} known occurrences inside</source>
        <translation>{value} bekannte Vorkommen innerhalb</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>{value} × the mean density of the region</source>
        <translation>{value} × mittlere Dichte der Region</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/vector_source.py"/>
        <source>{what}: '{value}' is no vector layer. Choose another one.</source>
        <translation>{what}: „{value}“ ist kein Vektorlayer. Wählen Sie einen anderen.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/jobs/vector_source.py"/>
        <source>{what}: no layer is chosen.</source>
        <translation>{what}: Kein Layer ist gewählt.</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/uncertainty_style.py"/>
        <source>± {percent} %</source>
        <translation>± {percent} %</translation>
    </message>
    <message>
        <location filename="../../geocfm_qgis/results/targets_style.py"/>
        <source>× regional mean</source>
        <translation>× Mittel der Region</translation>
    </message>
</context>
</TS>
