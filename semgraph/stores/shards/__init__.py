"""A store of several stores, its shards: each partition is in one of them, chosen by the hash of
its value.

`places` opens the shards of an address, `batches` divides what is written, `answers` joins what was
read, and `store` is the store. Nothing is shared by the shards, so there is no transaction, no
statistics of full text and no uniqueness of keys over all of them, except where `store` says so.
"""
