"""Tests of launches that compute."""
