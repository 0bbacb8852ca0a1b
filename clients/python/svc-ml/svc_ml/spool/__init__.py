"""What a run logs, kept on disk until the service has acknowledged it: its records, and the folder that they are in."""
