"""Ray carries one run by several workers, each of which runs shards of its rows.

- A *shard* has all rows of some partitions, so no request and no commit needs rows of two shards.
  `sharding` decides which plans can run in shards, and divides the rows.
- Workers share a store and a `RunLedger`: the budget of the run, and a limiter for each endpoint.
- Ray reports the death of a worker; no timeout does. Its shard runs again: commit markers skip
  written rows, and the shard's journal replays paid answers. Its requests in flight count as spent.
- Results, counters and records of shards are joined into those of one run.
"""
