"""A script of docs/extend.md: trains a model of a study with Composer's `Trainer`.

python own_train.py STUDY.toml SHARDS MODEL
"""

import sys
from pathlib import Path

from composer import Trainer
from composer.algorithms import GradientClipping
from composer.core import Timestamp
from composer.loggers import InMemoryLogger

from pretraining.data.shard_manifest import load_manifest
from pretraining.model.configuration import config_of
from pretraining.model.modeling import EuroBertForMaskedLM, initialise
from pretraining.plan.study_plan import load_study
from pretraining.training.composer_parts import BucketViews, PretrainingModel, StepData
from pretraining.training.dataloader import Data
from pretraining.training.optimizer import (
    build_optimizer,
    rates_by_step,
    stage_schedule,
)
from pretraining.training.ranks import Ranks

study, shards = load_study(Path(sys.argv[1])), Path(sys.argv[2])
planned, config, ranks = study.model(sys.argv[3]), study.config, Ranks.here()
shape = config_of(study.shapes[planned.size], load_manifest(shards)["tokenizer"])
data, model = Data(shards, config, shape), EuroBertForMaskedLM(shape)
initialise(model, config.seed)
optimizer = build_optimizer(model.to(ranks.device), config, ranks.device)
for stage in planned.stages:
    share = {
        "objective": stage.objective,
        "ratio": stage.ratio,
        "rank": ranks.rank,
        "world": ranks.world,
    }
    batches = (data.step(step, **share) for step in range(stage.first_step, stage.end))
    schedule, losses = (
        stage_schedule(planned, stage, config.optimizer),
        InMemoryLogger(),
    )
    trainer = Trainer(
        model=PretrainingModel(model),
        train_dataloader=StepData(batches, ranks),
        optimizers=optimizer,
        schedulers=rates_by_step(optimizer, schedule, stage.first_step, stage.end),
        step_schedulers_every_batch=True,
        algorithms=[GradientClipping("norm", config.optimizer.clip_norm)],
        callbacks=[BucketViews()],
        loggers=[losses],
        max_duration=f"{stage.end}ba",
        spin_dataloaders=False,
        progress_bar=False,
        device_train_microbatch_size=1,
        accumulate_train_batch_on_tokens=True,
    )
    trainer.state.timestamp = Timestamp(batch=stage.first_step)
    trainer.fit()
    print(*losses.get_timeseries("loss/train/total")["loss/train/total"], sep="\n")
