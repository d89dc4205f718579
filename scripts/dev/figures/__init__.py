"""`make figures`: the tables of values/FIGURES.md, predicted and measured."""
