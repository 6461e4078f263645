"""The smallest toy study, which most tests of the workflow take."""

from common.provenance import ROOT
from pretraining.plan.study_plan import load_study
from workflow.study_settings import load_settings

FOLDER = ROOT / "miniature" / "smallest"
SETTINGS = FOLDER / "settings.toml"
WORDS = ("workflow", "all", "--settings", str(SETTINGS))
"""The command that makes it."""
MODELS = tuple(load_study(FOLDER / "study.toml").models)
DATASETS = load_settings(SETTINGS).datasets
