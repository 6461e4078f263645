"""`client.py version | execute IMAGE COMMAND OPTIONS`: one question to Apptainer, by spython.

spython is a library that starts Apptainer. It has no time limit, and a signal to it leaves a container running. So this
is a process of its own, to which the caller (`container.runtime`) gives a time limit. It prints the answer. If it fails
in any way, the caller asks Apptainer itself and reports what Apptainer says.
"""

from __future__ import annotations

import json
import os
import sys


def main(
    question: str, image: str = "", command: str = "[]", options: str = "[]"
) -> int:
    """Print the answer to a question.

    Args:
        question: `version` of Apptainer, or `execute` a command in an image.
        image: the image file.
        command: the command and its arguments, as a JSON list.
        options: the options of `apptainer execute`, as a JSON list.

    Returns:
        The exit code: 0 if the answer was printed, 1 if spython cannot answer.
    """
    # Not installed in every environment: then the process fails here, as it may.
    from spython.main import Client

    Client.quiet = True
    version = Client.version()
    # spython starts `singularity`, which may be SingularityCE.
    if not version.startswith("apptainer"):
        return 1
    if question == "version":
        answer = version
    else:
        result = Client.execute(
            image,
            return_result=True,
            command=json.loads(command),
            options=json.loads(options),
            environ=dict(os.environ),
        )
        if result["return_code"]:
            return 1

        # spython returns one text, or a list of standard output and standard error.
        answer = "".join(result["message"])

    sys.stdout.write(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
