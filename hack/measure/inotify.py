"""Blocks until the kernel tells of a rename: an observer that spins would take the processor from what it measures."""

import ctypes
import os
import select
import struct
import time

IN_MOVED_TO = 0x80
LIBC = ctypes.CDLL(None, use_errno=True)


class Renames:
    """Renames to names in one directory."""

    def __init__(self, directory):
        self.fd = LIBC.inotify_init1(os.O_CLOEXEC)
        if self.fd < 0 or LIBC.inotify_add_watch(self.fd, os.fsencode(directory), IN_MOVED_TO) < 0:
            raise OSError(ctypes.get_errno(), f"cannot watch {directory}")

    def wait(self, name, timeout):
        """When something was renamed to `name`, by the monotonic clock; none if nothing was in time."""
        end = time.monotonic() + timeout
        while select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
            data, now, at = os.read(self.fd, 65536), time.monotonic(), 0
            while at < len(data):
                length = struct.unpack_from("iIII", data, at)[3]
                if data[at + 16 : at + 16 + length].rstrip(b"\0").decode() == name:
                    return now
                at += 16 + length
        return None

    def drain(self):
        while select.select([self.fd], [], [], 0)[0]:
            os.read(self.fd, 65536)

    def close(self):
        os.close(self.fd)
