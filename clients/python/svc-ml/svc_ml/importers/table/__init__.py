"""Tables, one point or some in each row: `rows.py` reads files, `mapping.py` says what columns are, `run.py` makes runs of them."""
