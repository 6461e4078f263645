"""`client.py version | execute IMAGE COMMAND OPTIONS`: one question to Apptainer, by spython.

A process of its own, to which the caller gives a time limit: spython has none, and a signal to it leaves a container
running. It prints the answer; where it fails in any way, the caller asks Apptainer itself, and says what that says.
"""

from __future__ import annotations

import json
import os
import sys


def main(
    question: str, image: str = "", command: str = "[]", options: str = "[]"
) -> int:
    """Print the answer and return 0; `command` and `options` are JSON lists."""
    from spython.main import Client  # not installed in every environment

    Client.quiet = True
    version = Client.version()
    # spython starts `singularity`, which may be SingularityCE.
    if not version.startswith("apptainer"):
        return 1
    if question == "version":
        answer = version
    else:
        words = {
            "command": json.loads(command),
            "options": json.loads(options),
            "environ": dict(os.environ),
        }
        done = Client.execute(image, return_result=True, **words)
        if done["return_code"]:
            return 1
        # spython returns one text, or a list of standard output and standard error.
        answer = "".join(done["message"])
    sys.stdout.write(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
