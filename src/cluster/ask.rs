//! A question to the API whose refusal is an answer: what is forbidden, or not there, is no reason to take the API for away.

use kube::Client;

use super::{ANSWER_TIMEOUT, refuses_everything, root_cause};

/// Why the API did not give what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AskError {
    /// It does not answer
    Away(String),
    /// The server answers, and this permission is missing
    Forbidden(String),
    /// It answers that it does not know this token
    Unauthorized(String),
    /// It answers that there is no such object
    Missing,
}

/// Asks, but does not wait for ever. `right` is what the caller must be allowed to do, in words.
pub(crate) async fn asked<T>(
    client: &Client,
    right: &str,
    question: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, AskError> {
    let error = match tokio::time::timeout(ANSWER_TIMEOUT, question).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(error)) => error,
        Err(_) => return Err(AskError::Away(format!("no answer in {} s", ANSWER_TIMEOUT.as_secs()))),
    };
    let why = root_cause(&error);
    Err(match error {
        kube::Error::Api(status) if status.code == 401 => AskError::Unauthorized(why),
        kube::Error::Api(status) if status.code == 404 => AskError::Missing,
        kube::Error::Api(status) if status.code == 403 && !refuses_everything(client).await => {
            AskError::Forbidden(format!("{right}: {why}"))
        }
        _ => AskError::Away(why),
    })
}
