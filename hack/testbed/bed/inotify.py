"""The machine's limit of inotify instances: kubelets and API servers need many, and the limit counts all of root's.

The bed changes no setting of the machine, so it only warns; without the warning, a kubelet that ends with "too many
open files" is a riddle.
"""

import os
from pathlib import Path

from .places import say

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
PER_NODE = 22  # seen: 21 in the node that leads, 16 in others


def warn_if_few(nodes):
    limit, used = int(LIMIT.read_text()), in_use()
    if used + nodes * PER_NODE > limit:
        say(
            f"warning: root may have {limit} inotify instances, {used} are in use, and a node needs up to {PER_NODE}; "
            "if a kubelet ends with `too many open files`: sysctl fs.inotify.max_user_instances=1024"
        )


def in_use():
    """Of all processes; what ended meanwhile has none."""
    count = 0
    for directory in Path("/proc").glob("[0-9]*/fd"):
        try:
            count += sum(os.readlink(handle) == "anon_inode:inotify" for handle in directory.iterdir())
        except OSError:
            pass
    return count
