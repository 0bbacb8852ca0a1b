"""What a run logs, kept on disk until the service has acknowledged it."""

from svc_ml.spool.log import Record, SpoolFull, SpoolReader, SpoolWriter

__all__ = ["Record", "SpoolFull", "SpoolReader", "SpoolWriter"]
