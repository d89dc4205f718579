"""Single parts of a step beside upstream's."""
