"""What people call to log, in groups that stand beside each other, each upon a run."""
