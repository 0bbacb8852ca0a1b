"""
MLflow: a database (`database.py`), a folder `mlruns` (`folder.py`) or a server (`server.py`). Each lists runs as `records.py` has them;
`run.py` makes what we log of them.
"""
