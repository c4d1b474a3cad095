"""What Python's library does not offer: the title of this process, children that end with it, a word to systemd."""

import ctypes
import os
import signal
import socket
import subprocess
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15


def set_title(title):
    """As k3s does it: over the memory that /proc/PID/cmdline shows."""
    begin, end = (int(word) for word in Path("/proc/self/stat").read_text().rsplit(") ", 1)[1].split()[45:47])
    text = title.encode()[: end - begin - 1]
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, text, len(text))
    LIBC.prctl(PR_SET_NAME, title.replace(" ", "-").encode()[:15], 0, 0, 0)


def start(command, log):
    """A child that the kernel kills as soon as this process ends, however it ends."""

    def end_with_parent():
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    environment = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
    with open(log, "a") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )


def notify(text):
    """sd_notify."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.sendto(text.encode(), f"\0{address[1:]}" if address.startswith("@") else address)
