"""`python -m pretraining`: plan, settings, shards, tokenizer, train, export."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from common.cli import run
from common.errors import UserError
from common.old_parser import Parser
from common.processes import AGAIN
from pretraining.plan.plan import plan_of
from pretraining.plan.report import FORMATS, render
from pretraining.plan.study_file import Study, load_study
from pretraining.study import FIGURES, Model


def main(argv: Sequence[str]) -> int | None:
    parser = Parser(prog="python -m pretraining", description="Pretrain the study's models.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    for add in (_add_plan, _add_settings, _add_shards, _add_tokenizer, _add_train, _add_export):
        add(commands)
    arguments = parser.parse_args(argv)
    answer: int | None = arguments.call(arguments)
    return answer


def _add_plan(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser("plan", help="what has to be trained for the study, a figure or a model")
    parser.add_argument("--model", action="append", metavar="NAME", help="this model (may be given again)")
    parser.add_argument("--figure", type=int, metavar="N", help="the models of one figure of the paper")
    parser.add_argument(
        "--format", default="tree", choices=tuple(FORMATS), help="tree (default), json, mermaid"
    )
    parser.add_argument("--device", default="H100", help="device that hours are counted for (H100)")
    parser.add_argument("--mfu", type=float, default=0.4, help="share of its peak rate that is reached (0.4)")
    _study_option(parser)
    parser.set_defaults(call=_plan)


def _plan(arguments: argparse.Namespace) -> None:
    study = load_study(arguments.study)
    models = _chosen(study, arguments.model, arguments.figure)
    sys.stdout.write(
        render(plan_of(models, study), arguments.format, device=arguments.device, utilisation=arguments.mfu)
    )


def _chosen(study: Study, names: list[str] | None, figure: int | None) -> list[Model]:
    if figure is not None:
        if figure not in FIGURES:
            raise UserError(f"the paper has no figure {figure}; it has 1 to {max(FIGURES)}")
        return [study.model(name) for name in FIGURES[figure]]
    if names:
        return [study.model(name) for name in names]
    if not study.models:
        raise UserError(
            f"the study {study.name!r} lists no models; add `models = [...]` to its file or use --model"
        )
    return list(study.models.values())


def _add_settings(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser("settings", help="every setting of `train`, its value and its meaning")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="assignments")
    _study_option(parser)
    parser.set_defaults(call=_settings)


def _settings(arguments: argparse.Namespace) -> None:
    from pretraining.plan.config import describe

    study = load_study(arguments.study)
    sys.stdout.write(describe(study.recipe.with_assignments(arguments.assignments)))


def _add_shards(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "shards",
        help="write a source's documents as training shards, or check shards: shards verify DIR",
        epilog="`shards verify DIR` compares every file of written shards with its hash.",
    )
    parser.add_argument("verify", nargs="*", metavar="verify DIR", help="check the shards in DIR")
    parser.add_argument(
        "--source",
        nargs="+",
        metavar="SOURCE",
        help="hf:OWNER/NAME[:CONFIG][@REVISION], or Parquet, JSON-lines and text files, folders, patterns",
    )
    parser.add_argument(
        "--tokenizer", metavar="ID_OR_PATH", help="folder, tokenizer.json, tiktoken file or hub id"
    )
    parser.add_argument("--out", type=Path, metavar="DIR")
    parser.add_argument("--text-field", default="text", help="column or key of the text (text)")
    parser.add_argument("--validation-share", type=float, default=0.005, help="documents held out (0.005)")
    parser.add_argument(
        "--validation-tokens", type=int, default=4_000_000, help="most tokens held out (4,000,000)"
    )
    parser.add_argument(
        "--tokens", type=float, default=0, help="stop after so many training tokens; 0 reads all (0)"
    )
    parser.add_argument(
        "--shard-records", type=int, default=4_096, help="records of 4,096 tokens a shard (4096)"
    )
    parser.add_argument("--compression", default="zstd", help="zstd (default) or none")
    parser.add_argument("--workers", type=int, help="processes that tokenise (one a core); changes no byte")
    parser.set_defaults(call=_shards)


def _shards(arguments: argparse.Namespace) -> int | None:
    from pretraining.data.build_shards import ShardSettings, build
    from pretraining.data.manifest import verify

    if arguments.verify:
        if arguments.verify[0] != "verify" or len(arguments.verify) != 2:
            raise UserError("shards takes options only, or the words `verify DIR`")
        problems = verify(Path(arguments.verify[1]))
        for problem in problems:
            sys.stdout.write(problem + "\n")
        if not problems:
            sys.stdout.write(f"{arguments.verify[1]}: all files are what the manifest says\n")
        return 1 if problems else None
    missing = [name for name in ("source", "tokenizer", "out") if getattr(arguments, name) is None]
    if missing:
        raise UserError(f"shards needs {', '.join('--' + name for name in missing)}")
    settings = ShardSettings(
        text_field=arguments.text_field,
        validation_share=arguments.validation_share,
        validation_tokens=arguments.validation_tokens,
        tokens=int(arguments.tokens),
        shard_records=arguments.shard_records,
        compression=arguments.compression,
    )
    build(arguments.source, arguments.tokenizer, arguments.out, settings, workers=arguments.workers)
    return None


def _add_tokenizer(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "tokenizer", help="write a Hugging Face tokenizer folder: converted, or trained"
    )
    parser.add_argument(
        "--convert", metavar="ID_OR_PATH", help="a tokenizer.json or a tiktoken file such as Llama 3's"
    )
    parser.add_argument(
        "--train", nargs="+", metavar="SOURCE", help="train a byte-level BPE on these documents"
    )
    parser.add_argument("--vocab", type=int, default=4096, help="ids of a trained one, 259 at least (4096)")
    parser.add_argument(
        "--documents", type=int, default=2000, help="documents it is trained on at most (2000)"
    )
    parser.add_argument("--text-field", default="text", help="column or key of the text (text)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.set_defaults(call=_tokenizer)


def _tokenizer(arguments: argparse.Namespace) -> None:
    from itertools import islice

    from pretraining.data.corpus import open_source
    from pretraining.data.tokenizer import load_tokenizer, train_tokenizer

    if (arguments.convert is None) == (arguments.train is None):
        raise UserError("tokenizer needs either --convert or --train")
    if arguments.convert is not None:
        made = load_tokenizer(arguments.convert)
    else:
        documents = islice(
            open_source(arguments.train, arguments.text_field).documents(), arguments.documents
        )
        made = train_tokenizer((document.text for document in documents), arguments.vocab)
    made.save(arguments.out)
    sys.stdout.write(f"{arguments.out}: {made.vocab_size} ids, SHA-256 {made.sha256}\n")


def _add_train(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "train",
        help="pretrain a model of the study, or one stage of the plan",
        epilog="Start it under srun, torchrun or composer for many GPUs. It goes on from its last checkpoint; "
        "after SIGTERM or SIGUSR1 it saves and exits with 75.",
    )
    parser.add_argument(
        "model", metavar="MODEL", help="such as 610m-clm-10k-mlm40-42k, or a trunk such as 610m-clm"
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="shards")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="checkpoints, logs and models")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="assignments",
        help="a setting (`settings`)",
    )
    parser.add_argument(
        "--stop-file",
        type=Path,
        metavar="FILE",
        help="save and exit with 75 once this file exists, as after SIGUSR1: for images and many nodes",
    )
    _study_option(parser)
    parser.set_defaults(call=_train)


def _train(arguments: argparse.Namespace) -> int | None:
    study = load_study(arguments.study)
    study.recipe.with_assignments(arguments.assignments)
    from pretraining.training.train import train

    done = train(
        arguments.model,
        data=arguments.data,
        out=arguments.out,
        study=study,
        assignments=arguments.assignments,
        stop_file=arguments.stop_file,
    )
    return None if done else AGAIN


def _add_export(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser("export", help="write a checkpoint as a Hugging Face folder")
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="a step-... folder of a stage")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="its shards, for the tokenizer"
    )
    parser.set_defaults(call=_export)


def _export(arguments: argparse.Namespace) -> None:
    from pretraining.training.train import export_checkpoint

    export_checkpoint(arguments.checkpoint, arguments.data, arguments.out)


def _study_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--study", type=Path, metavar="FILE", help="a study of your own (TOML); the paper's without"
    )


if __name__ == "__main__":
    run(main)
