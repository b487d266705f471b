"""Engines carry one run by several workers, each of which runs shards of its rows.

The contract, the same for every engine:

- A *shard* has all rows of some partitions (`sharding.shard_of`), so that no request and no
  commit needs rows of two shards. `sharding` says which plans can be run so, and lays the rows out.
- Workers share a store and a `RunLedger`: what the run may spend is leased to
  them, and each endpoint has one limiter for all of them.
- A worker that dies is told by its engine, never by a clock. Its shard is run again: commit markers
  skip what was written, and the shard's journal answers what was paid. What it had leased and not
  reported counts as spent.
- Results, counters and records of shards join into those of one run.
"""
