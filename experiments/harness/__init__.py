"""The engine: how anything is measured. Candidates in their own processes, journal, order, statistics, grade, record.

Adding an experiment touches nothing here: it is a folder whose `experiment.py` exposes `EXPERIMENT` (see
`experiment.Experiment`) and a worker module that builds the candidates. Nor does adding a kind of measurement: it is a
folder of `experiments.kinds` (see `kind.Kind`).
"""
