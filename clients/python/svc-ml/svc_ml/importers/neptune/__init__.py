"""What neptune-exporter has written: Parquet with one row for each value of an attribute, and files beside it."""
