"""Image of the end-to-end tests: Python, PyYAML and git; training packages are mounted."""
