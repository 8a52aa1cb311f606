"""Sessions beyond one process: workers as actors of a Ray cluster, and the directory that places sessions.

A worker (`session_worker.py`) has what a server of its own has: sessions, tapes, budgets, leases. Front ends
(`service/routing.py`) know none of it: the epoch that a call carries is the name of its session's worker. The
directory (`directory.py`) is asked where a new session is to live, and by clients that send no epoch. Only
`ray_cluster.py` and `ray_actors.py` know Ray.
"""
