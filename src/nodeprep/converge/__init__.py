"""Drives Ansible: a job in, events out. Knows nothing of claims beyond their ids."""
