"""The simulated server: one board, the tools that read it, its faults, the stand-in packages.

Stdlib only, Python 3.8+, relative imports only: the same files run on lab nodes from
/usr/lib/nodeprep-sim, where `run` answers as whichever tool it is called.
"""
