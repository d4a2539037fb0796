"""Parquet files whose names are damaged."""

import pyarrow as pa
import pytest

from kernelscope.analysis.files import parquet_files


@pytest.mark.parametrize("read", [parquet_files.schema, parquet_files.read, parquet_files.frame])
def test_a_columns_name_that_is_no_text_is_an_error_of_the_file(tmp_path, read):
    path = tmp_path / "a.parquet"
    parquet_files.write(pa.table({"damaged": [1, 2]}), path)
    path.write_bytes(path.read_bytes().replace(b"damaged", b"d\xb6maged"))
    with pytest.raises(pa.ArrowException):
        read(path)
