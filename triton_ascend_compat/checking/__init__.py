"""Targets of `check`: running them in processes of their own, and reporting what they compiled."""
