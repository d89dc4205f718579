"""Prints how it was started."""

import sys

print(__name__, sys.argv, sys.path[0])
