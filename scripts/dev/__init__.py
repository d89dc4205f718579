"""Commands that only developers run, called by the Makefile."""
