"""The study at toy scale: an example of `clm-or-mlm workflow`, not a library; nothing imports it.

`smallest` is made up and takes minutes; `curves` is made of your own text and datasets (docs/miniature.md).
"""
