"""Draws, densities and their mosaic over a region."""
