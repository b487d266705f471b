"""Ray carries one run by several workers, each of which runs shards of its rows.

- A *shard* has all rows of some partitions, so that no request and no commit needs rows of two shards.
  `sharding` says which plans can be run so, and lays the rows out.
- Workers share a store and a `RunLedger`: the budget of the run, and a limiter for each endpoint.
- A worker that dies is told by Ray, never by a clock. Its shard is run again: commit markers skip what
  was written, and the shard's journal answers what was paid. What it had in flight counts as spent.
- Results, counters and records of shards join into those of one run.
"""
