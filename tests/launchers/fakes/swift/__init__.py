"""Stands for ms-swift in process tests: an empty package with one class of flags."""
