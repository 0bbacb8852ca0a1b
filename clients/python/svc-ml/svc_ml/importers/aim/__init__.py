"""Runs of Aim, read with its own package."""
