"""Upstream's functions that training features replace, and the sources they were written for.

Reads the installed packages' files without importing them; imports ``system`` and below.
"""
