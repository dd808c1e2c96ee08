"""Operators of public packages: what `make corpus` compiles, and what `computed_operators.py` compares."""
