//! `/filter` and `/prioritize`: the scheduler's questions.

use std::sync::PoisonError;
use std::time::Duration;

use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::pages::is_name;
use super::{Chunks, Server, json_pieces, text};
use crate::decisions::{AskedNodes, Decision, Outcome};
use crate::judge::{positions, refuse, score};
use crate::metrics as m;
use crate::pods::{Judged, Waiting};
use crate::select::{Choice, Selection, select};
use crate::snapshot::{Column, Snapshot};
use crate::wire::{self, Asked, Piece, Pod};

/// Refusals whose reasons are remembered for people.
const SOME: usize = 5;
/// Pause between two log lines about requests that cannot be read.
const COMPLAINT_PAUSE: Duration = Duration::from_mins(1);

/// What is sent, which nodes it is about, and what it says.
type Answer = (Vec<Piece>, Option<AskedNodes>, Outcome);

impl Server {
    /// Answers a question of the scheduler. Lack of data is never an error: only a request that cannot be read is.
    pub(super) async fn verb(&self, verb: &'static str, request: Request<Incoming>) -> Response<Chunks> {
        let body = match self.body(request).await {
            Ok(read) => read,
            Err(answer) => {
                self.state.metrics.add(m::REQUESTS, &format!("{verb} unreadable"), 1);
                return answer;
            }
        };
        let began = Instant::now();
        let (pod, asked) = match wire::read(&body) {
            Ok(read) => read,
            Err(error) => {
                self.state.metrics.answered(verb, "unreadable", began.elapsed());
                if self.may_complain(began) {
                    tracing::warn!(verb, %error, "a request cannot be read; is this the scheduler? Further ones are not logged for a minute");
                }
                return text(400, format!("{error}\n"));
            }
        };
        let snapshot = self.state.snapshot();
        let (pieces, nodes, outcome) = match select(&snapshot.config, self.state.own_namespace.as_deref(), &pod) {
            Selection::Exempt(why) => {
                self.state.metrics.add(m::EXEMPT, why.name(), 1);
                // nodes that are not listed get no points
                let pieces =
                    if verb == "filter" { wire::pass_answer(&body, &asked) } else { vec![Piece::New(b"[]".to_vec())] };
                (pieces, None, Outcome::Exempt(why))
            }
            Selection::Chosen(choice) => {
                self.state.metrics.add(m::UNKNOWN_POLICY, "", choice.unknown.len());
                if verb == "filter" {
                    self.filter(&snapshot, &pod, choice, (&body, &asked), began)
                } else {
                    self.prioritize(&snapshot, &pod, &choice, &asked, began)
                }
            }
        };
        let meta = &pod.metadata;
        self.state.decisions().push(Decision {
            time: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            verb,
            pod: format!("{}/{}", meta.namespace, meta.name),
            uid: meta.uid.to_string(),
            asked: asked.names().len(),
            nodes,
            outcome,
        });
        self.state.metrics.answered(verb, "ok", began.elapsed());
        let pieces = pieces.into_iter().map(|piece| match piece {
            Piece::New(bytes) => Bytes::from(bytes),
            Piece::Old(range) => body.slice(range),
        });
        json_pieces(pieces)
    }

    /// Whether a line may be logged about a request that anybody may have sent.
    fn may_complain(&self, now: Instant) -> bool {
        let mut last = self.complained.lock().unwrap_or_else(PoisonError::into_inner);
        let may = last.is_none_or(|last| now.saturating_duration_since(last) >= COMPLAINT_PAUSE);
        if may {
            *last = Some(now);
        }
        may
    }

    fn prioritize(
        &self,
        snapshot: &Snapshot,
        pod: &Pod<'_>,
        choice: &Choice,
        asked: &Asked<'_>,
        now: Instant,
    ) -> Answer {
        let (columns, names, uid) = (snapshot.columns(choice, now), asked.names(), &*pod.metadata.uid);
        let (positions, herd) = (positions(&snapshot.index, names), &snapshot.config.herd);
        let of = (&*snapshot.index, &positions[..]);
        let penalties = self.state.tracker().penalties(herd, uid, of, |at| &names[at], now);
        let scores = score(&columns, &positions, penalties.as_deref(), snapshot.config.minimum_spread);
        for (column, missing) in columns.iter().zip(&scores.missing) {
            self.state.metrics.add(m::NEUTRAL, &column.policy.name, *missing);
        }
        self.note_misfits(snapshot, &columns, &positions, asked, now);
        if herd.enabled {
            let most = scores.points.iter().copied().max();
            let best = names.iter().zip(&scores.points).filter(|(_, points)| Some(**points) == most);
            self.state.tracker().expect(uid, best.map(|(name, _)| &**name), now);
        }
        let bytes = wire::scores_answer(names, &scores.points);
        let nodes = AskedNodes::new(&snapshot.index, positions, |at| &names[at]);
        (vec![Piece::New(bytes)], Some(nodes), Outcome::Scored(scores.points))
    }

    /// Says so if a policy has series and a value for none of the nodes.
    fn note_misfits(
        &self,
        snapshot: &Snapshot,
        columns: &[Column<'_>],
        positions: &[u32],
        asked: &Asked<'_>,
        now: Instant,
    ) {
        let Some(node) = asked.names().first() else { return };
        let misfits = self.state.misfits.find(snapshot, columns, positions, now);
        for at in &misfits {
            self.state.metrics.add(m::MISFITS, &columns[*at].policy.name, 1);
        }
        self.state.misfits.note(snapshot, columns, &misfits, node);
    }

    fn filter(
        &self,
        snapshot: &Snapshot,
        pod: &Pod<'_>,
        choice: Choice,
        (body, asked): (&[u8], &Asked<'_>),
        now: Instant,
    ) -> Answer {
        if !snapshot.config.refuses() {
            return (wire::pass_answer(body, asked), None, Outcome::Filtered(0, Vec::new()));
        }
        let (columns, names) = (snapshot.columns(&choice, now), asked.names());
        let positions = positions(&snapshot.index, names);
        let refusals = refuse(&columns, &positions);
        for number in &refusals.waived {
            self.state.metrics.add(m::WAIVED, &columns[*number].policy.name, 1);
        }
        let (refused, texts) = refusals.thresholds(&columns, &positions);
        for (number, column) in columns.iter().enumerate() {
            let count = refusals.by.iter().filter(|by| usize::from(**by) == number).count();
            self.state.metrics.add(m::REFUSED, &column.policy.name, count);
        }
        self.note_misfits(snapshot, &columns, &positions, asked, now);
        let with_texts: Vec<(usize, &str)> = refused.iter().map(|(at, text)| (*at, texts[*text].as_str())).collect();
        let pieces = wire::filter_answer(body, asked, |at| refusals.passes(at), &with_texts);
        let in_words = |at: usize| Some((names[at].to_string(), refusals.reason(&columns, &positions, at)?));
        let some = refused.iter().take(SOME).filter_map(|(at, _)| in_words(*at)).collect();
        let meta = &pod.metadata;
        // to wake it, its name becomes part of a path
        if snapshot.config.recovery.enabled && is_name(&meta.namespace) && is_name(&meta.name) {
            let waiting = || Waiting {
                namespace: meta.namespace.to_string(),
                name: meta.name.to_string(),
                uid: meta.uid.to_string(),
            };
            self.state.tracker().judged(
                &meta.uid,
                waiting,
                Judged { snapshot, choice, asked: &positions, refusals: &refusals },
                now,
            );
        }
        let nodes = AskedNodes::new(&snapshot.index, positions, |at| &names[at]);
        (pieces, Some(nodes), Outcome::Filtered(refusals.count, some))
    }
}
