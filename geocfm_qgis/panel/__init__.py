"""The panel: four steps on one surface, what the data allow, and the run at work."""
