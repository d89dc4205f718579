"""All field cases: the rows that people bring, and the right verdict on each (issue 36)."""

from tests.field import column_cases, file_cases, row_cases

CASES = (*row_cases.CASES, *file_cases.CASES, *column_cases.CASES)
