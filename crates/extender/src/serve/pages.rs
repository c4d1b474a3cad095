//! Pages for people, probes and scrapers.

use std::fmt::Write as _;

use hyper::body::Incoming;
use hyper::{Request, Response, Uri};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{Chunks, Server, json, text};
use crate::explain::explain;
use crate::metrics as m;
use crate::select::{Selection, select};
use crate::state::State;
use crate::url::form_decode;
use crate::wire::{self, Pod};

const PAGES: &str = "try /explain?pod=NAMESPACE/NAME, /debug/decisions, /metrics, /livez or /readyz\n";

/// Why there is nothing to judge nodes by, if so.
fn why_not_ready(state: &State) -> Option<String> {
    let snapshot = state.snapshot();
    let now = Instant::now();
    let fresh = snapshot.config.policies.iter().zip(&snapshot.values);
    let mut fresh = fresh.filter(|(policy, values)| !values.is_stale(policy, now)).peekable();
    let is_answered = fresh.peek().is_some();
    if fresh.any(|(_, values)| values.plain.iter().any(|value| !value.is_nan())) {
        return None;
    }
    let failures = state.failures().values().cloned().collect::<Vec<_>>().join("\n");
    Some(match failures.is_empty() {
        false => failures,
        true if is_answered => "no query gives a series that belongs to a node; see node.label and node.is".to_owned(),
        true => "Prometheus was not asked yet".to_owned(),
    })
}

/// Whether there is something to judge nodes by, in words; with `verbose` a line for each policy.
pub fn ready_text(state: &State, verbose: bool) -> Result<String, String> {
    let details = if verbose { details(state) } else { String::new() };
    match why_not_ready(state) {
        None => Ok(format!("ok: at least one policy has fresh values\n{details}")),
        Some(why) => Err(format!("no policy has fresh values, every node is neutral:\n{why}\n{details}")),
    }
}

fn details(state: &State) -> String {
    let (snapshot, now, mut text) = (state.snapshot(), Instant::now(), String::new());
    let (failures, misfits) = (state.failures().clone(), state.misfits.all());
    for (policy, values) in snapshot.config.policies.iter().zip(&snapshot.values) {
        let nodes = values.plain.iter().filter(|value| !value.is_nan()).count();
        let (mark, age) = match values.age(now) {
            None => ("[-]", "no values".to_owned()),
            Some(age) if values.is_stale(policy, now) => ("[-]", format!("stale, {} s old", age.as_secs())),
            Some(age) if misfits.contains_key(&policy.name) || nodes == 0 => {
                ("[-]", format!("{} s old", age.as_secs()))
            }
            Some(age) => ("[+]", format!("{} s old", age.as_secs())),
        };
        let report = &values.report;
        let _ = writeln!(
            text,
            "{mark} {}: {age}, nodes with a value: {nodes}, series: {}, of no node: {}",
            policy.name, report.series, report.unmapped
        );
        for why in [failures.get(&policy.name), misfits.get(&policy.name)].into_iter().flatten() {
            let _ = writeln!(text, "    {why}");
        }
    }
    text
}

/// Whether a text may be the name of a pod or namespace. It becomes part of a path and of a selector.
pub(super) fn is_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (1..=253).contains(&text.len()) && text.bytes().all(is_allowed) && !text.starts_with('.')
}

impl Server {
    pub(super) async fn page(&self, uri: &Uri) -> Response<Chunks> {
        match uri.path() {
            "/livez" | "/healthz" => text(200, "ok\n"),
            "/readyz" => match ready_text(&self.state, uri.query().is_some_and(|query| query.contains("verbose"))) {
                Ok(said) => text(200, said),
                Err(said) => text(503, said),
            },
            "/metrics" => text(200, metrics_text(&self.state)),
            "/debug/decisions" => json(format!("{:#}\n", self.state.decisions().json())),
            "/explain" => self.explain_pod(uri.query().unwrap_or_default()).await,
            _ => text(404, PAGES),
        }
    }

    /// POST: explains a request of the scheduler instead of answering it.
    pub(super) async fn explain_request(&self, request: Request<Incoming>) -> Response<Chunks> {
        let is_json = request.uri().query().is_some_and(|query| query.contains("output=json"));
        let body = match self.body(request).await {
            Ok(read) => read,
            Err(answer) => return answer,
        };
        match wire::read(&body) {
            Ok((pod, asked)) => {
                let nodes: Vec<String> = asked.names().iter().map(ToString::to_string).collect();
                self.explained(&pod, "", Some(nodes), is_json)
            }
            Err(error) => text(400, format!("{error}\n")),
        }
    }

    async fn explain_pod(&self, query: &str) -> Response<Chunks> {
        let value = |name: &str| {
            let pair = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name);
            pair.map(|(_, value)| form_decode(value))
        };
        let is_json = value("output").as_deref() == Some("json");
        let wanted = value("pod").unwrap_or_default();
        let Some((namespace, name)) = wanted.split_once('/').filter(|(a, b)| is_name(a) && is_name(b)) else {
            return text(400, "name a pod: /explain?pod=NAMESPACE/NAME\n");
        };
        let Some(api) = &self.api else {
            return text(501, "there is no API server to look the pod up: POST an ExtenderArgs object to /explain\n");
        };
        let raw = match api.get::<Box<RawValue>>(&format!("/api/v1/namespaces/{namespace}/pods"), name).await {
            Ok(raw) => raw,
            Err(error) if error.code() == 404 => return text(404, format!("there is no pod {namespace}/{name}\n")),
            Err(error) => return text(502, format!("cannot look up the pod: {error}\n")),
        };
        match serde_json::from_str::<Pod<'_>>(raw.get()) {
            Ok(pod) => self.explained(&pod, raw.get(), None, is_json),
            Err(error) => text(502, format!("cannot read the pod: {error}\n")),
        }
    }

    /// The nodes that the scheduler asked for last about this pod, else all that are known, and which ones these are.
    fn nodes_for(&self, name: &str, uid: &str) -> (Vec<String>, String) {
        if let Some((nodes, time)) = self.state.decisions().nodes_of(name, uid) {
            let (names, all) = (nodes.names(), nodes.positions.len());
            let rest = all - names.len();
            let more = if rest > 0 { format!(" ({rest} more have no value)") } else { String::new() };
            return (names, format!("Shown: the {all} nodes that the scheduler asked for at {time}{more}."));
        }
        let from_api = self.nodes.names();
        if !from_api.is_empty() {
            let said = "Shown: all nodes of the cluster, since the scheduler has not asked for this pod lately. It asks only for those that its own plugins leave.";
            return (from_api, said.to_owned());
        }
        let snapshot = self.state.snapshot();
        let said = "Shown: all nodes that series are about, since the scheduler has not asked for this pod lately.";
        (snapshot.index.names().iter().map(ToString::to_string).collect(), said.to_owned())
    }

    fn explained(&self, pod: &Pod<'_>, raw: &str, nodes: Option<Vec<String>>, is_json: bool) -> Response<Chunks> {
        let snapshot = self.state.snapshot();
        let name = format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
        let choice = match select(&snapshot.config, self.state.own_namespace.as_deref(), pod) {
            Selection::Chosen(choice) => choice,
            Selection::Exempt(why) => {
                let why = why.name();
                let said = format!("{name} is exempt ({why}): every node passes and none gets points\n");
                return if is_json { json(format!("{{\"exempt\":\"{why}\"}}\n")) } else { text(200, said) };
            }
        };
        let (nodes, shown) = nodes.map_or_else(
            || {
                let (nodes, shown) = self.nodes_for(&name, &pod.metadata.uid);
                (nodes, Some(shown))
            },
            |nodes| (nodes, None),
        );
        let now = Instant::now();
        let positions: Vec<u32> = nodes.iter().map(|name| snapshot.index.position(name)).collect();
        let (uid, of) = (&*pod.metadata.uid, (&*snapshot.index, &positions[..]));
        let penalties = self.state.tracker().penalties(&snapshot.config.herd, uid, of, |at| &nodes[at], now);
        let mut explained =
            explain(&snapshot, &choice, &nodes, penalties.as_deref(), (self.state.weight, &self.state.misfits), now);
        explained.notes.splice(0..0, shown);
        explained.notes.extend(self.past(&name, uid, raw));
        if is_json {
            return json(format!("{:#}\n", explained.json()));
        }
        text(200, format!("{name}, as of now:\n\n{}", explained.text()))
    }

    /// What was answered when the scheduler asked, and what it made of that.
    fn past(&self, name: &str, uid: &str, raw: &str) -> Vec<String> {
        let bound: serde_json::Value = serde_json::from_str(raw).unwrap_or_default();
        let node = bound["spec"]["nodeName"].as_str().filter(|node| !node.is_empty());
        let decisions = self.state.decisions();
        let scored = decisions.last("prioritize", name, uid);
        let mut notes = Vec::new();
        match (scored, node) {
            (Some(decision), Some(node)) => {
                let (own, most) = (decision.points_of(node), decision.most_points());
                notes.push(match (own, most) {
                    (Some(own), Some(most)) if own == most => {
                        format!("It was bound to {node}, which had the most points ({own}) at {}.", decision.time)
                    }
                    (Some(own), Some(most)) => format!(
                        "It was bound to {node}, which had {own} points at {} while the best had {most}: {} more from the scheduler's own plugins outweighed the difference.",
                        decision.time,
                        u32::from(most - own) * self.state.weight * 10
                    ),
                    _ => format!("It was bound to {node}; at {} no policy had a value for that node, or it was not among the {} nodes that the scheduler asked for.", decision.time, decision.asked),
                });
            }
            (Some(decision), None) => notes.push(format!("At {} the scheduler asked for points of {} nodes.", decision.time, decision.asked)),
            (None, Some(node)) => notes.push(format!(
                "It was bound to {node}. The scheduler did not ask this extender for points: only one node was left, it is too long ago, or another scheduler or extender was asked."
            )),
            (None, None) => {}
        }
        if let Some(crate::decisions::Outcome::Filtered(refused, _)) =
            decisions.last("filter", name, uid).map(|last| &last.outcome)
            && *refused > 0
        {
            notes.push(format!("When the scheduler asked last, {refused} nodes were refused."));
        }
        notes
    }
}

/// Metrics, with what changes by itself brought up to date.
pub fn metrics_text(state: &State) -> String {
    let (snapshot, now) = (state.snapshot(), Instant::now());
    for (policy, values) in snapshot.config.policies.iter().zip(&snapshot.values) {
        // a policy that never had an answer is as old as its configuration
        let age = values.age(now).unwrap_or_else(|| now.saturating_duration_since(snapshot.since));
        state.metrics.set(m::AGE, &policy.name, age.as_secs_f64());
    }
    let (herd, waiting) = {
        let mut tracker = state.tracker();
        (tracker.forget_old(snapshot.config.herd.window, now), tracker.waiting())
    };
    for (name, number) in [(m::HERD, herd), (m::WAITING, waiting)] {
        state.metrics.set(name, "", f64::from(u32::try_from(number).unwrap_or(u32::MAX)));
    }
    state.metrics.text()
}
