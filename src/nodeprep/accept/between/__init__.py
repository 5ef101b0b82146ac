"""Between nodes: every pair measured, in rounds that use no node twice.

One child process (`python -m nodeprep.accept.between.worker`) holds a connection to every node and
runs real tools between them, over the address by which nodes find each other. It judges nothing:
`attribution` finds out whose fault bad pairs are, `verdicts` says so, and both are pure.
"""
