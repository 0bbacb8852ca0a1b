"""What was logged, kept on disk until the service has acknowledged it."""
