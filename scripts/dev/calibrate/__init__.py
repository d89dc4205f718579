"""`make calibrate`: errors of the predictors on measured and published runs; see NOTES.md."""
