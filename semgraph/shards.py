"""The shard of a partition: the same in every store, run and version, as data and records rest on
it.
"""

from __future__ import annotations

from hashlib import blake2b


def shard_of(partition: str, shards: int) -> int:
    """The shard of a partition, from 0 to `shards` - 1.

    Args:
        partition: Value of the partition.
        shards: How many shards there are, at least 1.

    >>> [shard_of(partition, 64) for partition in ("user-1", "user-3", "Zoë", "")]
    [8, 53, 26, 52]
    >>> {shard_of(str(number), 3) for number in range(20)}
    {0, 1, 2}
    """
    digest = blake2b(partition.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % shards
