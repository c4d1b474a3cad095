"""k3s, as far as its neighbours can see it: `k3s server`, `k3s --version`."""

import os
import socket
import sys

from . import arguments
from .arguments import Fatal
from .server import Server


def main(words):
    version = os.environ["STANDIN_KUBERNETES"]
    if words[:1] in (["--version"], ["-v"]):
        print(f"k3s version {version}+k3s1 (stand-in)")
        return 0
    if words[:1] != ["server"]:
        print(f"No help topic for '{' '.join(words[:1])}'", file=sys.stderr)
        return 3
    try:
        return Server(version, socket.gethostname().lower(), words, arguments.parsed(arguments.merged(words)[1:])).run()
    except Fatal as error:
        print(f'level=fatal msg="{error}"', file=sys.stderr, flush=True)
        return 1


sys.exit(main(sys.argv[1:]))
