"""Pinned Apptainer images: how they are built, checked, run, and whether a site can run them.

`start` and `packages` run inside an image, from the standard library and `common` alone.
"""
