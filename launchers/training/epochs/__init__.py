"""Correct ms-swift's transformers trainer where an epoch resumes, repeats or ends."""
