"""`make figures`: the tables and the plot of values/FIGURES.md, predicted and measured."""
