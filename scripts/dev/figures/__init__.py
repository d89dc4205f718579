"""The figures of values/README.md: what each profile is predicted to do, and what was measured."""
