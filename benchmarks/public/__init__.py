"""Data sets of others, which the user has downloaded: LoCoMo, LongMemEval, SemBench, MuSiQue. None
is shipped.
"""
