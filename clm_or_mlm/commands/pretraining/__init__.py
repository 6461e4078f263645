"""The commands of `python -m pretraining`."""

from clm_or_mlm.rooms import Room

__all__ = ["ROOM"]

_HERE = "clm_or_mlm.commands.pretraining"

ROOM = Room(
    name="pretraining",
    description="Pretrain the study's models.",
    commands={
        "plan": (f"{_HERE}.plan:plan", "what has to be trained for the study, a figure or a model"),
        "settings": (f"{_HERE}.settings:settings", "every setting of `train`, its value and its meaning"),
        "shards": (
            f"{_HERE}.shards:shards",
            "write a source's documents as training shards, or check shards: shards verify DIR",
        ),
        "tokenizer": (
            f"{_HERE}.tokenizer:tokenizer",
            "write a Hugging Face tokenizer folder: converted, or trained",
        ),
        "train": (f"{_HERE}.train:train", "pretrain a model of the study, or one stage of the plan"),
        "export": (f"{_HERE}.export:export", "write a checkpoint as a Hugging Face folder"),
    },
    examples="""\
examples:
  python -m pretraining plan --figure 3
  python -m pretraining settings --set global_batch=96
  python -m pretraining shards --source documents/ --tokenizer tokenizer/ --out data/
  python -m pretraining train 610m-clm-10k-mlm40-42k --data data/ --out build/pretraining
""",
)
