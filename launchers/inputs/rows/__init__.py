"""Parts of the check of rows: files and types of columns, and what stands next to messages."""
