"""Files and coordinates: the grid, what is read onto it, and what is written from it."""
