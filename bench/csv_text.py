"""Tables as csv text that a spreadsheet does not take for formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_text(frame: pd.DataFrame) -> str:
    """Return ``frame`` as csv without its index.

    A text that starts like a formula and is no number gets an apostrophe in front, column names included.
    """
    import pandas as pd

    safe = frame.rename(columns=_safe)
    for place, kind in enumerate(frame.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            values = [_safe(value) for value in frame.iloc[:, place]]
            safe.isetitem(place, pd.Series(values, index=frame.index, dtype=object))
    return safe.to_csv(index=False, lineterminator="\n")


def _safe(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) and not _is_number(value) else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
