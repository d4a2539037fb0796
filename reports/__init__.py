"""Reports draw the results of analyses: terminal, HTML, figures, tables. They take plain results and know nothing of captures."""
