"""Columns with few distinct texts in many rows: looked up, filled and joined by their codes, never row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd


def with_text_categories(values: pd.Series) -> pd.Series:
    """Return a category column whose categories have pandas' text type, so that it can be joined with others."""
    if values.cat.categories.dtype == "str":
        return values
    categories = pd.Index(values.cat.categories, dtype="str")
    return pd.Series(pd.Categorical.from_codes(values.cat.codes.to_numpy(), categories=categories), index=values.index)


def taken(values: pd.Series, rows: npt.NDArray[np.int64]) -> pd.Categorical:
    """Return the values of a category column at rows; null for row -1."""
    if not len(values):
        return pd.Categorical.from_codes(np.full(len(rows), -1), categories=values.cat.categories)
    codes = values.cat.codes.to_numpy()[np.maximum(rows, 0)]
    codes[rows < 0] = -1
    return pd.Categorical.from_codes(codes, categories=values.cat.categories)


def of_codes(codes: Any, texts: Sequence[str | None]) -> pd.Categorical:
    """Return texts by position, given as codes. Equal texts are one category; None and code -1 are null."""
    inner, categories = pd.factorize(np.array([*texts, None], dtype=object))
    return pd.Categorical.from_codes(inner[codes], categories=pd.Index(categories, dtype="str"))


def named(numbers: Any, name_of: Callable[[int], str | None]) -> pd.Categorical:
    """Return a text for each number, looked up once per distinct number; null for None and for null."""
    codes, distinct = pd.factorize(numbers)
    return of_codes(codes, [name_of(number) for number in distinct.tolist()])


def triples(rows: pd.DataFrame, axes: Sequence[str]) -> pd.Categorical:
    """Return three columns of numbers as x,y,z, such as a grid; null if one of them is."""
    codes = rows.groupby(list(axes), sort=False, dropna=False).ngroup().to_numpy()
    distinct = rows.drop_duplicates(list(axes))[list(axes)].itertuples(index=False)
    return of_codes(codes, [None if any(map(pd.isna, sizes)) else ",".join(map(str, sizes)) for sizes in distinct])


def translated(values: pd.Series, function: Callable[[str], Any]) -> pd.Series:
    """Return a category column's texts mapped by a function that is called once per distinct text; null stays null."""
    answers = pd.Categorical([function(str(text)) for text in values.cat.categories])
    if (answers.codes < 0).all():
        codes: Any = np.broadcast_to(np.int8(-1), len(values))
    else:
        codes = np.append(answers.codes, np.int8(-1))[values.cat.codes.to_numpy()]  # null has code -1: the last entry
    return pd.Series(pd.Categorical.from_codes(codes, categories=answers.categories, validate=False), index=values.index)


def joined(columns: list[pd.Series]) -> pd.Categorical:
    """Return the concatenation of category columns, with the categories of all."""
    return pd.api.types.union_categoricals([with_text_categories(column).array for column in columns])


def filled(values: pd.Series, others: pd.Series) -> pd.Series:
    """Return a category column with its nulls filled from another one, row by row."""
    if values.isna().all():
        return others.set_axis(values.index)
    both = joined([values, others])
    mine, other = both.codes[: len(values)], both.codes[len(values) :]
    codes = np.where(mine >= 0, mine, other)
    return pd.Series(pd.Categorical.from_codes(codes, categories=both.categories), index=values.index)


def is_null(values: pd.api.extensions.ExtensionArray) -> bool:
    """Return whether all values are null; returns early if the first is not null, or if one value stands for all rows."""
    if len(values) and not pd.isna(values[0]):
        return False
    if isinstance(values, pd.Categorical) and values.codes.strides == (0,):
        return True
    return bool(values.isna().all())
