"""One command at a time changes a bed. The lock is on its directory, so that no file is left when the bed is gone."""

import fcntl
import os
from contextlib import contextmanager

from .places import Problem


@contextmanager
def held(bed):
    while True:
        bed.directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(bed.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise Problem(
                f"bed {bed.name} is busy: another testbed command works on it; wait for it, or end it"
            ) from None
        if is_still(bed.directory, handle):
            break
        os.close(handle)  # a `down` removed it in between
    try:
        yield
    finally:
        if is_still(bed.directory, handle):
            remove_if_empty(bed.directory)
        os.close(handle)


def is_still(directory, handle):
    try:
        return os.path.samestat(os.stat(directory), os.fstat(handle))
    except FileNotFoundError:
        return False


def remove_if_empty(directory):
    for place in (directory, directory.parent):
        try:
            place.rmdir()
        except OSError:
            return
