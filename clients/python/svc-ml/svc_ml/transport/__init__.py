"""From the queue of a run, through its spool, to the service."""
