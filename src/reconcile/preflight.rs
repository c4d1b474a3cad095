//! The passes that begin and end a preflight.

use super::{Env, Event, Request, Session, begin, is_held, look_once};
use crate::apply;
use crate::finding::Finding;
use crate::target::PreflightManifest;

/// Begins a preflight, if the plan still comes to the revision that is expected; `false` if it does not, or somebody holds.
pub fn begin_preflight(
    request: &Request<'_>,
    session: Option<&Session>,
    env: &Env<'_>,
    manifest: &PreflightManifest,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<bool, Finding> {
    let taken = if session.is_none() { Some(begin(request, env, on_event)?) } else { None };
    let Some(session) = session.or(taken.as_ref()) else { return Ok(false) };
    let (snapshot, plan) = look_once(request, None)?;
    let is_expected = request.expected_revision.is_none_or(|revision| plan.revision.as_deref() == Some(revision));
    if plan.is_refused() || is_held(request, &snapshot) || !is_expected {
        return Ok(false);
    }
    let done = &mut |done: apply::Done<'_>| on_event(Event::Done(done));
    apply::begin_preflight(&session.writer(env, None), &plan, &snapshot, manifest, done)
        .map_err(|error| error.finding())?;
    Ok(true)
}

/// Ends every preflight on this host, whoever began it.
pub fn end_preflights(request: &Request<'_>, session: Option<&Session>, env: &Env<'_>) -> Result<(), Finding> {
    let taken = if session.is_none() { Some(begin(request, env, &mut |_| {})?) } else { None };
    let Some(session) = session.or(taken.as_ref()) else { return Ok(()) };
    let (snapshot, _) = look_once(request, None)?;
    apply::end_preflights(&session.writer(env, None), &snapshot).map_err(|error| error.finding())
}
