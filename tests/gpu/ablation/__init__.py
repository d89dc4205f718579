"""Many flags measured in one start, switched while the model runs."""
