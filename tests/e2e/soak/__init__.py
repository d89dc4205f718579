"""A run that is disturbed every few minutes must end with the losses of an undisturbed one."""
