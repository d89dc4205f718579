"""`make figures`: the tables and the plot of values/README.md, predicted and measured."""
