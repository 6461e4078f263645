"""The paper's findings by id, in a few words each: the one list, which everything else about findings follows.

A new finding begins with a line here; what has to hold goes to a module of `analysis.claims.catalogue`.

It imports nothing, so that commands can offer the findings without loading the catalogue.
"""

ANSWER, ANSWER_TITLE = "answer", "CLM then MLM beats MLM alone in half or more"
"""The statement by which the paper's question is answered; it is ours, and stands next to the findings."""


TITLES = {
    "F1": "MLM beats CLM on SC and QA",
    "F2": "QA is hurt most by CLM",
    "F3": "gap widens on SC, narrows on IR",
    "F4": "CLM level with MLM on TC, ahead at 610M",
    "F5a": "no ratio is best everywhere",
    "F5b": "larger models prefer higher ratios",
    "F5c": "IR prefers higher ratios",
    "F5d": "small models prefer lower ratios on TC, QA",
    "F5e": "scores at 610M and 1B are U-shaped",
    "F6": "CLM learns faster early",
    "F7": "CLM is less sensitive to the learning rate",
    "F8": "CLM then MLM beats MLM alone",
    "F9": "25 to 50 % CLM is the best balance",
    "F10": "two-stage is less sensitive to the ratio",
    "F11": "CPT from CLM beats CPT from MLM",
    "F12": "12k steps of CPT suffice",
    "F13": "CLM start improves more late in CPT",
    "F14": "biphasic wins by 1-3 %",
    "F15": "CLM then CPT beats MLM from scratch",
    "F16": "MLM overtakes CLM late in training",
    "F17": "TC gains least from CLM then MLM",
}
"""In this order everywhere; `analysis.claims.catalogue` says of each what has to hold."""
