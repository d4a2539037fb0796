"""Reports draw what analyses found: terminal, HTML, figures, tables. They take plain results and know nothing of captures."""
