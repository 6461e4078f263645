"""`python -m container COMMAND`: build, run, test, verify, doctor."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from common.cli import run
from common.errors import UserError
from common.old_parser import Parser
from container.build import IMAGES


def main(argv: Sequence[str]) -> int | None:
    parser = Parser(
        prog="python -m container", description="Build, run and check the Apptainer images; check a site."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    for add in (_add_build, _add_run, _add_test, _add_verify, _add_doctor):
        add(commands)
    # What follows the image of `run` belongs to the command inside, options included.
    own, inside = _split(argv)
    arguments = parser.parse_args(own)
    arguments.words = inside
    answer: int | None = arguments.call(arguments)
    return answer


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    if argv[:1] != ["run"]:
        return list(argv), []
    number = 1
    while number < len(argv):
        if argv[number] == "--bind":
            number += 2
        elif argv[number].startswith("-"):
            number += 1
        else:
            break
    words = list(argv[number + 1 :])
    return list(argv[: number + 1]), words[1:] if words[:1] == ["--"] else words


def _add_build(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser("build", help="build an image into build/")
    parser.add_argument("image", metavar="IMAGE", help=" or ".join(IMAGES))
    parser.add_argument("--mirror", metavar="URL", help="Debian mirror ({snapshot} is replaced by the date)")
    parser.add_argument(
        "--relock", action="store_true", help="record the Debian packages the mirror has today"
    )
    parser.add_argument("--flash-attn", metavar="WHEEL", help="a flash-attn wheel to put into the full image")
    parser.add_argument("--no-test", action="store_true", help="leave the image's own test out")
    parser.add_argument(
        "--compression",
        default="zstd",
        metavar="NAME",
        help="zstd (default), or gzip for a site whose Apptainer or kernel is too old for it",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="where it goes (build/IMAGE.sif)")
    parser.set_defaults(call=_build)


def _build(arguments: argparse.Namespace) -> None:
    from container.build import build, get_image

    path = build(
        get_image(arguments.image),
        mirror=arguments.mirror,
        relock=arguments.relock,
        flash_attn=arguments.flash_attn,
        test=not arguments.no_test,
        compression=arguments.compression,
        target=arguments.out,
    )
    sys.stdout.write(f"{path}  {path.stat().st_size / 1e6:.0f} MB\n")


def _add_run(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "run",
        help="run a room in an image",
        epilog="example: python -m container run analysis reproduce-figure3 --source published",
    )
    parser.add_argument(
        "image", metavar="IMAGE", help="analysis, full, or an image file; its command follows"
    )
    parser.add_argument(
        "--bind", action="append", default=[], metavar="DIR", help="another folder to show inside"
    )
    parser.set_defaults(call=_run)


def _run(arguments: argparse.Namespace) -> None:
    from container.build import get_image
    from container.launch import launch

    file = Path(arguments.image)
    image = file if file.suffix == ".sif" else get_image(arguments.image).path
    launch(image.resolve(), arguments.words, arguments.bind)


def _add_test(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser("test", help="run an image's own test: imports, a figure, training")
    parser.add_argument("image", metavar="IMAGE", help=" or ".join(IMAGES))
    parser.set_defaults(call=_test)


def _test(arguments: argparse.Namespace) -> None:
    from container.apptainer import stream
    from container.build import get_image

    image = get_image(arguments.image).path
    if not image.is_file():
        raise UserError(f"{image} does not exist; build it: python -m container build {arguments.image}")
    for line in stream(["test", "--no-home", "--cleanenv", str(image)]):
        sys.stdout.write(line)


def _add_verify(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser("verify", help="compare an image with its record, the locks and the commit")
    parser.add_argument("image", metavar="IMAGE", help=" or ".join(IMAGES))
    parser.add_argument("--file", type=Path, metavar="FILE", help="the image file (build/IMAGE.sif)")
    parser.add_argument("--against", type=Path, metavar="FILE", help="another build, for equal package sets")
    parser.set_defaults(call=_verify)


def _verify(arguments: argparse.Namespace) -> int:
    from container.build import get_image
    from container.verify import compare, verify

    image = get_image(arguments.image)
    path = arguments.file or image.path
    findings = verify(image, path)
    if arguments.against is not None:
        findings.append(compare(path, arguments.against))
    for finding in findings:
        word = "ok" if not finding.problems else "DIFFERS" if finding.fatal else "note"
        sys.stdout.write(f"{word:8}{finding.what}: {'; '.join(finding.problems) or finding.note}\n")
    return int(any(finding.problems and finding.fatal for finding in findings))


def _add_doctor(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser("doctor", help="find wrong site settings before a job is submitted")
    parser.add_argument(
        "--study", type=Path, default=Path(), metavar="DIR", help="folder the study will lie in"
    )
    parser.set_defaults(call=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    from container.doctor import examine, report

    lines = examine(arguments.study)
    sys.stdout.write(report(lines))
    return int(any(line.status == "fail" for line in lines))


if __name__ == "__main__":
    run(main)
