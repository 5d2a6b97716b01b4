"""What the maps are worth: capture curves, plots, measurements."""
