"""Public data sets, downloaded by the user: LoCoMo, LongMemEval, SemBench, MuSiQue. None is
shipped.
"""
