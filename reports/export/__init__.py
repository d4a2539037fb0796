"""Export recordings and results to other tools' formats, a module per format. They write files and read none."""
