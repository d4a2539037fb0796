"""Reports of sweeps: figures, tables in the form of the literature, and one HTML page."""
