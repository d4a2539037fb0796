"""Code that runs in the framework's own interpreter: Python 3.6+, standard library only; importing it does nothing."""
