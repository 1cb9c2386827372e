"""How anything is measured: workloads, candidates in their own processes, journal, statistics, gates, records.

Adding an experiment touches nothing here: it is a folder whose `experiment.py` exposes `EXPERIMENT` (see
`experiment.Experiment`) and a worker module that builds the step to be measured.
"""
