"""Operators of public libraries whose kernels `offline_corpus.py` compiles."""
