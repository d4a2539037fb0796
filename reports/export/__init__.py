"""What was recorded and found, in other tools' formats: one module a format. They write files and read nothing."""
