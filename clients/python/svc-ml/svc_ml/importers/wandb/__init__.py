"""Files `.wandb` of W&B: a log of frames (`frames.py`) of records (`records.py`), beside the files of the run (`run.py`)."""
