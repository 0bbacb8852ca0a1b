"""Event files of TensorBoard: folders (`folders.py`) of files of frames (`frames.py`) of events (`events.py`)."""
