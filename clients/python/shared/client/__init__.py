"""
What the packages of svc have in common. It stands once, in `clients/python/shared/client`, and is part of each package by a
link: wheels and sdists hold it as files. It names its package nowhere, and imports by relative paths only.
"""
