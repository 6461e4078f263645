"""Pretraining: the study, data, model, objectives, schedule, trainer.

`models`, `paper_models`, `paper_settings`, `plan.flops` and `training.log` are light (standard library only) and may
be imported by every room; the other modules need the full environment.
"""
