"""
Brings runs of other trackers here: `svc-ml import tensorboard DIR`.

A source lists its runs; a run yields what it holds, as `items.py` names it, in the order in which the source has it; `sender.py` turns
that into writes; `work.py` spreads runs over processes and follows sources that grow.

Nothing is noted on disk. The key of an experiment is made of the source and the run, the id of a file of its place in the run, and
a point is known by its stream, its series and how many points of the series came before it in the stream; where others may come in
between, by itself (`series.py`). So an import that was interrupted is simply repeated, and one of a source that has grown adds what is
new.
"""
