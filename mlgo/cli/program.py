"""What all programs share: one-line errors, exit status, clean ends on signals."""

import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from mlgo.base.files import write_json
from mlgo.base.threads import one_thread_each
from mlgo.errors import ArtifactError, MlgoError, PackageError
from mlgo.host.process import die_with_parent


def run_program(main: Callable[[], int | None]) -> None:
    """Run a program and exit.

    Libraries compute in one thread each, here and in all that is started here (`mlgo.base.threads`).

    Mistakes of the user print one line and give their status, an interruption gives 130 (Ctrl-C) or 143 (SIGTERM);
    either way all context managers are left in order, so nothing stays behind. With the environment variable
    ``MLGO_LOG`` set, the error also goes to that file. With ``MLGO_FAILURE`` set, a mistake that lies in the settings
    or in what they led to is a result: it goes to that file, and the status is 0. Files that cannot be read, written or
    fetched stay errors, since another run may find them.
    """
    one_thread_each()
    signal.signal(signal.SIGTERM, _terminate)
    if "MLGO_LOG" in os.environ:  # started by a workflow rule: do not outlive the workflow
        die_with_parent(signal.SIGTERM)
    log = Path(os.environ["MLGO_LOG"]) if "MLGO_LOG" in os.environ else None
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("")
    try:
        status = main() or 0
        sys.stdout.flush()
    except MlgoError as error:
        print(f"error: {error}", file=sys.stderr)
        if log is not None:
            log.write_text(f"error: {error}\n")
        status = error.exit_status
        if os.environ.get("MLGO_FAILURE") and not isinstance(error, ArtifactError | PackageError):
            write_json(Path(os.environ["MLGO_FAILURE"]), {"message": str(error)})
            status = 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        status = 128 + signal.SIGINT
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print(f"error: no space left on the device ({error.filename or 'temporary folder'})", file=sys.stderr)
        status = 1
    sys.exit(status)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
