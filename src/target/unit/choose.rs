//! Which file is to be edited. Pure.

use super::drop_in::DropIn;
use super::{Method, OPENRC, UNITS, exec_start::ExecStart, is_unit};
use crate::finding::Finding;
use crate::revision::Digest;
use crate::target::{Candidates, Chosen, Context, Definition as _, Refusal, Rule, TargetFile};

/// The unit of the one k3s server, or our own file beside its configuration.
pub(super) fn choose<'a>(method: Method, candidates: &Candidates<'a>) -> Result<Chosen<'a>, Finding> {
    match method {
        Method::ExecStart => choose_unit(candidates),
        Method::DropIn => choose_own_file(candidates),
    }
}

fn choose_unit<'a>(candidates: &Candidates<'a>) -> Result<Chosen<'a>, Finding> {
    let Candidates { dir, files, target, around, .. } = *candidates;
    let mut servers = Vec::new();
    let mut refused = None;
    for file in files.unwrap_or_default().iter().filter(|file| target.is_none_or(|target| file.path == target)) {
        let text = match &file.text {
            Ok(text) => text,
            Err(why) => {
                refused.get_or_insert_with(|| unreadable(why).in_file(&file.path));
                continue;
            }
        };
        let context = Context { path: &file.path, around };
        match (ExecStart { text, context }).spec() {
            Ok(spec) => servers.push((file, text.as_str(), spec)),
            Err(Refusal { rule: Rule::NoServer, .. }) if target.is_none() => {}
            Err(refusal) => {
                refused.get_or_insert_with(|| Finding::from(refusal).in_file(&file.path));
            }
        }
    }
    let more = servers.split_off(servers.len().min(1));
    let (Some((file, text, spec)), []) = (servers.pop(), more.as_slice()) else {
        if let [(other, ..), ..] = more.as_slice() {
            let message = format!("several units start a k3s server, also {}", other.path);
            return Err(
                Finding::error("which-scheduler", message, "name the one to edit with --target FILE").in_file(dir)
            );
        }
        return Err(refused.unwrap_or_else(|| no_unit(candidates)));
    };
    if !is_unit(&file.path) {
        let message = format!("the unit is not in {UNITS}: the package or person that put it there may replace it");
        let way_out = format!("leave the unit as it is: --k3s-method drop-in; or copy it to {UNITS}");
        return Err(Finding::error("package-unit", message, way_out).in_file(&file.path));
    }
    if file.is_link {
        let message = "the unit is a symbolic link; replacing it would leave the linked file as it is";
        let way_out = "leave the unit as it is: --k3s-method drop-in";
        return Err(Finding::error("symlink", message, way_out).in_file(&file.path));
    }
    Ok(Chosen { file, text, digest: digest(text), spec, warnings: Vec::new() })
}

fn choose_own_file<'a>(candidates: &Candidates<'a>) -> Result<Chosen<'a>, Finding> {
    let Candidates { files, around, target, .. } = *candidates;
    let is_meant = |file: &&TargetFile| target.is_none_or(|target| file.path == target);
    let file = files.unwrap_or_default().iter().find(is_meant).ok_or_else(|| no_unit(candidates))?;
    let text = file.text.as_deref().map_err(|why| unreadable(why).in_file(&file.path))?;
    let context = Context { path: &file.path, around };
    let spec = DropIn::new(text, context).and_then(|own| own.spec());
    let spec = spec.map_err(|refusal| match refusal.rule {
        Rule::NoServer => no_unit(candidates),
        _ => Finding::from(refusal).in_file(&file.path),
    })?;
    Ok(Chosen { file, text, digest: digest(text), spec, warnings: Vec::new() })
}

fn digest(text: &str) -> Digest {
    Digest::of_bytes(text.as_bytes())
}

fn unreadable(why: &str) -> Finding {
    let way_out = "correct or remove the file, and run as a user who may read it";
    Finding::error("unreadable", format!("cannot read the file: {why}"), way_out)
}

/// No unit starts a server: perhaps another service manager does, or k3s was never installed.
fn no_unit(candidates: &Candidates<'_>) -> Finding {
    let Candidates { dir, around, .. } = *candidates;
    let flag = "--kube-scheduler-arg=config=FILE";
    if around.files.contains_key(OPENRC) {
        let message = "OpenRC runs k3s on this host, whose service files schedpatch does not edit";
        let way_out = format!(
            "write FILE yourself (it must name clientConnection.kubeconfig), add the line '    {flag}' to command_args= in \
             {OPENRC}, or the lines 'kube-scheduler-arg+:' and '- config=FILE' to \
             /etc/rancher/k3s/config.yaml.d/90-scheduler.yaml; then run: rc-service k3s restart"
        );
        return Finding::error("openrc", message, way_out).in_file(OPENRC);
    }
    let units = candidates.files.unwrap_or_default().iter().map(|file| &file.path);
    let is_agent = units.chain(around.files.keys()).any(|path| is_unit(path) && path.contains("k3s-agent"));
    if is_agent {
        let message = "this host runs a k3s agent, which has no scheduler";
        return Finding::error("no-manifest", message, "run this on a server of the cluster").in_file(dir);
    }
    let message = "no unit here starts a k3s server";
    let way_out = format!(
        "a server that was never started gets its configuration when it is installed: write FILE (it must name \
         clientConnection.kubeconfig: /var/lib/rancher/k3s/server/cred/scheduler.kubeconfig) and install with \
         INSTALL_K3S_EXEC=\"server {flag}\", or start: k3s server {flag}; schedpatch takes it over from there. A unit in \
         another directory is left as it is with --k3s-method drop-in"
    );
    Finding::error("no-manifest", message, way_out).in_file(dir)
}
