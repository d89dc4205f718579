"""Single operators of a step compared with upstream's."""
