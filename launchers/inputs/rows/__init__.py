"""Parts of the check of rows: files of columns, and what a row has next to its messages."""
