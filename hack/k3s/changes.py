"""What people do every day: install, change, by hand or not, test, uninstall; and others who edit the same files."""

import re
import time

from .bed import DROP_IN, DROP_INS, ROOT, STATE, UNIT, VOLATILE, wait
from .release import NAMESPACE, SETTLE, another, ready, text, unit

FOREIGN = "\t'--tls-san=10.99.0.77' \\\n"
QUIET = 20  # who has not restarted anything by then will not


def patch_and_uninstall(release):
    """One restart each; the unit's bytes are those from before."""
    server = release.node
    release.remove()
    before, starts, command = unit(server), server.starts(), server.command_line()
    release.helm("install")
    release.expect_ready()
    one_restart(server, starts)
    assert b"--kube-scheduler-arg=config=/" in unit(server) and not server.is_trying(), unit(server).decode()
    systemd_agrees(server, command)
    starts = server.starts()
    release.uninstall()
    wait(server.answers, "a scheduler after the uninstall")
    assert unit(server) == before, unit(server).decode()
    assert server.command_line() == command, server.command_line()
    assert "--config=" not in server.last_scheduler(), server.last_scheduler()
    one_restart(server, starts)
    files = server.run(f"find {DROP_INS} {VOLATILE} {STATE} -type f 2>/dev/null", check=False)
    assert "schedpatch" not in files, files
    assert not server.annotations(), server.annotations()


def systemd_agrees(server, before):
    """systemd reads the edited unit as the editor meant it: one more argument, and nothing else."""
    now, own = server.command_line(), server.last_scheduler().split(" --config=")[1].split()[0]
    assert now == [*before, f"--kube-scheduler-arg=config={own}"], f"{before} became {now}"
    said = server.run(f"systemd-analyze verify --man=no {UNIT} 2>&1", check=False)
    assert "k3s.service" not in said, said


def one_restart(server, before, expected=1):
    time.sleep(QUIET)
    assert server.starts() - before == expected, f"{server.starts() - before} restarts of k3s, not {expected}"


def content_change(release):
    server = release.node
    ready(release)
    starts = server.starts()
    release.change()
    release.expect_ready()
    one_restart(server, starts)


def change_by_helm_upgrade(release):
    """Helm still writes to the API after the ConfigMap has changed: k3s must not restart under its hands."""
    server = release.node
    ready(release)
    starts = server.starts()
    for _ in range(3):
        release.helm("upgrade", mark=another())
        release.expect_ready()
    one_restart(server, starts, 3)


def no_restart_without_a_change(release):
    """An agent that restarts, a chart that is upgraded, the same content once more."""
    server = release.node
    ready(release)
    starts = server.starts()
    release.delete_agents()
    wait(lambda: len(server.agent_pids()) == 1, "a new agent")
    release.expect_ready()
    release.helm("upgrade", "resync=9m")
    release.expect_ready()
    release.change(release.mark)
    one_restart(server, starts, 0)


def manual_mode(release):
    """The file is changed, and a person decides when."""
    server = release.node
    release.remove()
    before, starts = unit(server), server.starts()
    release.helm("install", "k3s.restart=manual")
    told = release.wait_for(server, "RestartRequired")
    assert "systemctl restart k3s" in told["message"], told
    assert "--kube-scheduler-arg=config=/" in unit(server).decode(), unit(server).decode()
    one_restart(server, starts, 0)
    server.restart()
    release.expect_ready()
    release.change()
    release.wait_for(server, "RestartRequired")
    server.restart()
    release.expect_ready()
    one_restart(server, starts, 2)
    undone = server.run(f"helm uninstall schedpatch --namespace {NAMESPACE} --wait --timeout=60s 2>&1; echo exit $?", check=False)
    assert "exit 1" in undone, f"helm uninstall did not wait for the restart: {undone}"
    wait(lambda: unit(server) == before, f"the unit as it was; helm: {undone}", 60)
    program = f"{ROOT}/target/image/schedpatch"
    said = server.run(f"{program} uninstall --timeout 20s --kubeconfig /etc/rancher/k3s/k3s.yaml 2>&1; echo exit $?", check=False)
    assert "exit 1" in said and "systemctl daemon-reload && systemctl restart k3s" in said, said
    server.restart()
    wait(server.answers, "a scheduler")
    release.remove()
    one_restart(server, starts, 3)


def drop_in_method(release):
    """A file of our own; the unit stays as it is, and so it survives the installer."""
    server = release.node
    release.remove()
    before, starts = unit(server), server.starts()
    release.helm("install", "k3s.method=drop-in")
    release.expect_ready()
    one_restart(server, starts)
    assert "kube-scheduler-arg+" in server.path(DROP_IN).read_text(), server.path(DROP_IN).read_text()
    release.change()
    release.expect_ready()
    one_restart(server, starts, 2)
    assert unit(server) == before, "the unit changed"
    server.bed.verb("install-k3s", "--force", server.name)
    release.expect_ready()
    one_restart(server, starts, 3)
    release.uninstall()
    wait(server.answers, "a scheduler")
    assert not server.path(DROP_IN).exists() and unit(server) == before, "the drop-in is left"
    one_restart(server, starts, 4)


def a_later_list_that_drops_ours(release):
    """Somebody's drop-in without `+` after ours: the scheduler would not get our configuration, and we must not say Ready."""
    server = release.node
    release.remove()
    release.helm("install", "k3s.method=drop-in")
    release.expect_ready()
    server.run(f"cat > {DROP_INS}/95-theirs.yaml", stdin="kube-scheduler-arg: [kube-api-burst=99]\n")
    try:
        server.restart()
        wait(server.answers, "a scheduler")
        told = release.wait_for(server, "Blocked", seconds=90)
        assert told.get("reason") == "K3sConfigOverridden" and "95-theirs.yaml" in told.get("message", ""), told
    finally:
        server.run("rm", f"{DROP_INS}/95-theirs.yaml")
    server.restart()
    release.expect_ready()
    release.uninstall()


def the_installer_again(release):
    """It writes the unit anew and restarts k3s; the agent puts the edit back, with one more restart at most."""
    server = release.node
    ready(release)
    starts, number = server.starts(), generation(server)
    assert "restarted" in server.bed.verb("install-k3s", server.name)
    put_back(release, starts, number)
    starts, number = server.starts(), generation(server)
    server.bed.verb("install-k3s", server.name, "--", "--disable", "traefik")
    put_back(release, starts, number)
    assert "'traefik'" in unit(server).decode(), unit(server).decode()
    server.bed.verb("install-k3s", server.name)
    wait(lambda: b"--kube-scheduler-arg=config=/" in unit(server), "the edit is back", 90)
    release.expect_ready()
    # more than three within an hour would be a fight
    release.remove()


def generation(server):
    """How many commits there were: each is in the comment of the unit."""
    return int(re.search(rb"# schedpatch-undo: .*?note=[0-9a-f]{12}%20(\d+)", unit(server))[1])


def put_back(release, starts, number):
    """One commit. The agent may be so quick that its restart and the installer's are one."""
    server = release.node
    wait(lambda: b"--kube-scheduler-arg=config=/" in unit(server), "the edit is back", 90)
    release.expect_ready()
    time.sleep(QUIET)
    assert server.starts() - starts in (1, 2), f"{server.starts() - starts} restarts of k3s"
    assert generation(server) - number == 1, f"{generation(server) - number} commits"


def add_foreign(server):
    """An argument and a comment of somebody else, at the end of the command and of the unit."""
    old = unit(server).decode()
    head, command = old.split("    server \\\n", 1)
    server.run(f"cat > {UNIT}", stdin=f"{head}    server \\\n{FOREIGN}{command}# theirs\n")
    server.run("systemctl", "daemon-reload")


def foreign_edits_in_between(release):
    """They stay through a change and through the uninstall."""
    server = release.node
    release.remove()
    before = unit(server).decode()
    ready(release)
    add_foreign(server)
    release.change()
    release.expect_ready()
    now = unit(server).decode()
    assert FOREIGN in now and "# theirs\n" in now, now
    starts = server.starts()
    release.uninstall()
    wait(server.answers, "a scheduler")
    one_restart(server, starts)
    head, command = before.split("    server \\\n", 1)
    assert unit(server).decode() == f"{head}    server \\\n{FOREIGN}{command}# theirs\n", unit(server).decode()
    server.bed.verb("install-k3s", server.name)


def edited_while_we_restart(release):
    """Somebody writes the unit while our restart is under way: both edits are there in the end."""
    server = release.node
    ready(release)
    starts = server.starts()
    release.change()
    wait(lambda: server.starts() > starts, "our restart", 60, pause=0.05)
    add_foreign(server)
    release.expect_ready()
    time.sleep(SETTLE)
    now = unit(server).decode()
    assert FOREIGN in now and "# theirs\n" in now and "--kube-scheduler-arg=config=/" in now, now
    time.sleep(QUIET)
    assert server.starts() - starts <= 2, f"{server.starts() - starts} restarts of k3s"
    release.remove()
    server.bed.verb("install-k3s", server.name)
    wait(server.answers, "a scheduler")


def a_test_pod_is_bound(release):
    """`schedpatch verify`, with a person's rights."""
    server = release.node
    ready(release)
    said = server.run(f"{ROOT}/target/image/schedpatch verify --kubeconfig /etc/rancher/k3s/k3s.yaml 2>&1")
    assert "scheduled   on" in said, said


def by_hand_on_the_host(release):
    """`apply`, a restart by a person, `restore`, another restart: no agent, no cluster."""
    server, program = release.node, ROOT / "target/image/schedpatch"
    release.remove()
    before, mark = unit(server), another()
    server.run("mkdir -p /run/e2e; cat > /run/e2e/config.yaml", stdin=text(mark))
    for method, place in (("execstart", UNIT), ("drop-in", DROP_IN)):
        flags = f"--k3s-restart manual --k3s-method {method}"
        assert "Nothing was written" in server.run(f"{program} plan --source /run/e2e {flags}")
        said = server.run(f"{program} apply --source /run/e2e {flags} 2>&1")
        assert "systemctl restart k3s" in said and "schedpatch" in server.path(place).read_text(), said
        server.restart()
        wait(lambda: server.runs_with() == mark, f"{method}: {server.last_scheduler()}", 60)
        assert "Nothing to change" in server.run(f"{program} plan --source /run/e2e {flags}")
        server.run(f"{program} restore --purge {flags} 2>&1")
        server.restart()
        wait(lambda: server.runs_with() == 16, f"{method}, restored: {server.last_scheduler()}", 60)
        assert unit(server) == before and not server.path(DROP_IN).exists(), unit(server).decode()
        assert not server.path(STATE).exists(), "a state directory is left"


def by_hand_with_a_restart(release):
    """`apply` and `restore` restart k3s themselves where nobody says otherwise."""
    server, program = release.node, ROOT / "target/image/schedpatch"
    release.remove()
    before, mark, starts = unit(server), another(), server.starts()
    server.run("mkdir -p /run/e2e; cat > /run/e2e/config.yaml", stdin=text(mark))
    server.run(f"{program} apply --source /run/e2e 2>&1")
    wait(lambda: server.runs_with() == mark, lambda: server.last_scheduler(), 60)
    server.run(f"{program} restore --purge 2>&1")
    wait(lambda: server.runs_with() == 16, lambda: server.last_scheduler(), 60)
    one_restart(server, starts, 2)
    assert unit(server) == before and not server.path(STATE).exists(), unit(server).decode()


def a_crash_before_the_restart(release):
    """Between `restore` and the restart, k3s dies by itself: it must come back, whichever command line systemd has loaded."""
    server, program = release.node, ROOT / "target/image/schedpatch"
    release.remove()
    mark = another()
    server.run("mkdir -p /run/e2e; cat > /run/e2e/config.yaml", stdin=text(mark))
    server.run(f"{program} apply --k3s-restart manual --source /run/e2e 2>&1")
    server.restart()
    wait(lambda: server.runs_with() == mark, "what was applied", 60)
    try:
        server.run(f"{program} restore --k3s-restart manual --purge 2>&1")
        starts = server.starts()
        server.run("kill -9 $(systemctl show --property=MainPID --value k3s)")
        wait(lambda: server.starts() > starts and server.answers(), "a scheduler after the crash", 45)
    finally:
        server.restart()
        wait(server.answers, "a scheduler")


def a_unit_with_another_name(release):
    """INSTALL_K3S_NAME: k3s-prod.service."""
    server, place = release.node, "/etc/systemd/system/k3s-prod.service"
    release.remove()
    rename(server, "k3s", "--k3s-name", "prod")
    try:
        before = server.path(place).read_bytes()
        release.helm("install")
        release.expect_ready()
        assert b"--kube-scheduler-arg=config=/" in server.path(place).read_bytes(), server.path(place).read_text()
        release.uninstall()
        wait(server.answers, "a scheduler")
        assert server.path(place).read_bytes() == before, server.path(place).read_text()
    finally:
        rename(server, "k3s-prod")


def rename(server, old, *words):
    server.run(f"systemctl disable --now {old} && rm {UNIT.replace('k3s.', f'{old}.')}* && systemctl daemon-reload")
    server.bed.verb("install-k3s", *words, server.name)
    wait(server.answers, "a scheduler")


def hand_patched(release):
    """As the manual way says: a person's own `config=` in the unit is taken over, not doubled."""
    server = release.node
    release.remove()
    mark = another()
    beside = "/var/lib/rancher/k3s/agent/pod-manifests/scheduler"
    place = f"{beside}/config.yaml"
    server.run(f"mkdir -p {beside}; cat > {place}", stdin=f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: {mark}
clientConnection: {{kubeconfig: /var/lib/rancher/k3s/server/cred/scheduler.kubeconfig}}
""")
    try:
        server.bed.verb("install-k3s", server.name, "--", f"--kube-scheduler-arg=config={place}")
        wait(lambda: server.runs_with() == mark, "the person's configuration")
        by_hand = unit(server)
        # what both say must be the same
        release.helm("install", f"extraHostPaths={{{beside}}}", mark=mark)
        release.expect_ready()
        shown = server.last_scheduler()
        assert shown.count("--config=") == 1 and f"--config={STATE}/revisions/" in shown, shown
        assert f"--kube-scheduler-arg=config={STATE}/revisions/" in unit(server).decode(), unit(server).decode()
        release.uninstall()
        wait(lambda: f"--config={place}" in server.last_scheduler() and server.answers(), "the person's configuration again")
        assert unit(server) == by_hand, unit(server).decode()
    finally:
        release.remove()
        server.bed.verb("install-k3s", server.name)
        wait(server.answers, "a scheduler")
