"""File contents, whatever tool wrote them: SQLite pages, chrome JSON, protobuf, printed tables, packed bytes."""
