"""The image of hack/own-scheduler: a scheduler with one plugin more, and programs that misbehave."""

import subprocess
import sys

from extender.stage import ROOT, TESTBED

from .cluster import IMAGE, VERSION

sys.path.insert(0, str(ROOT / "hack/testbed"))
from bed import programs  # noqa: E402

# one program under several names
NAMES = ("own-scheduler", "own-scheduler-ends", "own-scheduler-ignores", "own-scheduler-serves")


def own_scheduler():
    """Builds it, and gives the archive."""
    program = ROOT / "target/own-scheduler"
    program.parent.mkdir(exist_ok=True)
    programs.go_build(ROOT / "hack/own-scheduler", ".", program, programs.linker_flags(VERSION))
    archive = ROOT / "target/own-scheduler.tar"
    names = [f"{program}=/{name}" for name in NAMES]
    subprocess.run([TESTBED, "image", archive, IMAGE, "/own-scheduler", *names], check=True, stdout=subprocess.DEVNULL)
    return archive


def agent():
    """The agent's archive, which hack/image makes unless it is there."""
    found = lambda: sorted((ROOT / "target/image").glob("schedpatch-[0-9]*.[0-9].tar"))  # noqa: E731
    if not found():
        subprocess.run(["hack/image"], cwd=ROOT, check=True)
    return found()[-1]
