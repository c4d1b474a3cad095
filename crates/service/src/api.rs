//! Requests to the API server: each answers in time or counts as unanswered.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use kube::Client;
use kube::core::Request;
use kube::core::params::{ListParams, Patch, PatchParams, PostParams};
use serde::de::{DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::client::root_cause;
use crate::log::shortened;

/// So long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Lists come in pages of this size, so that no answer grows without bound.
const PAGE: u32 = 500;
/// So much of a parser's words is shown.
const MAX_REASON_BYTES: usize = 200;

/// Why a request did not do what it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The API server says no
    #[error("{message} (code {code})")]
    Refused {
        /// HTTP status
        code: u16,
        /// The reason, in one word
        reason: String,
        /// In its own words
        message: String,
    },
    /// No answer: nobody knows whether the request was done
    #[error("no answer from the API server: {0}")]
    Silent(String),
    /// An answer that is not of the expected form
    #[error("the API server's answer cannot be read: {0}")]
    Unreadable(String),
}

impl ApiError {
    /// The HTTP status, 0 if there was no answer.
    pub fn code(&self) -> u16 {
        match self {
            Self::Refused { code, .. } => *code,
            Self::Silent(_) | Self::Unreadable(_) => 0,
        }
    }
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        match error {
            // the client takes any object for a status without fields
            kube::Error::Api(status) if status.code == 0 => Self::Unreadable(
                format!("neither what was asked for nor a status {}", status.message).trim().to_owned(),
            ),
            kube::Error::Api(status) => Self::Refused {
                code: status.code,
                reason: status.reason.clone(),
                message: status.message.replace('\n', " "),
            },
            kube::Error::SerdeError(error) => Self::Unreadable(in_short(&error)),
            other => Self::Silent(root_cause(&other)),
        }
    }
}

impl From<&Unreadable> for ApiError {
    fn from(Unreadable { object, why, .. }: &Unreadable) -> Self {
        let name = if object.is_empty() { "an object without a name" } else { object };
        Self::Unreadable(format!("{name}: {why}"))
    }
}

/// A page of a list.
#[derive(Debug, Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PageMeta {
    resource_version: String,
    r#continue: String,
}

/// An object of a list or of an event, read by itself, so that one that cannot be read does not hide the others.
#[derive(Clone)]
pub(crate) struct Readable<T>(pub(crate) Result<T, Unreadable>);

/// By this name serde_json hands out an object as its text, without building anything from it.
const AS_TEXT: &str = "$serde_json::private::RawValue";

/// An object that cannot be read.
#[derive(Clone, Debug)]
pub struct Unreadable {
    /// Namespace and name; empty if they cannot be read either
    pub object: String,
    /// Its version; likewise
    pub version: String,
    /// Why
    pub why: String,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Readable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(AS_TEXT, Reader(PhantomData))
    }
}

struct Reader<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for Reader<T> {
    type Value = Readable<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Readable<T>, A::Error> {
        map.next_key::<IgnoredAny>()?;
        map.next_value_seed(self)
    }

    /// The object's text.
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Readable<T>, E> {
        let named = |error| {
            let object: Value = serde_json::from_str(text).unwrap_or_default();
            Unreadable::new(&object, &error)
        };
        Ok(Readable(serde_json::from_str(text).map_err(named)))
    }

    /// There is no text any more where an event's object comes before its type, which no API server does so far.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Readable<T>, D::Error> {
        let object = Value::deserialize(deserializer)?;
        Ok(Readable(T::deserialize(&object).map_err(|error| Unreadable::new(&object, &error))))
    }
}

impl<'de, T: DeserializeOwned> DeserializeSeed<'de> for Reader<T> {
    type Value = Readable<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Readable<T>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

/// A parser's words, which may quote the object, in short.
fn in_short(error: &serde_json::Error) -> String {
    shortened(&error.to_string(), MAX_REASON_BYTES)
}

impl Unreadable {
    /// This object cannot be read because of this error.
    pub(crate) fn new(object: &Value, error: &serde_json::Error) -> Self {
        let part = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
        let name = match (part("namespace"), part("name")) {
            ("", name) | (_, name @ "") => name.to_owned(),
            (namespace, name) => format!("{namespace}/{name}"),
        };
        Self { object: name, version: part("resourceVersion").to_owned(), why: in_short(error) }
    }
}

/// All objects of a list that can be read, and the others by name.
#[derive(Debug)]
pub struct Listed<T> {
    /// Those that can be read
    pub objects: Vec<T>,
    /// Those that cannot
    pub unreadable: Vec<Unreadable>,
    /// The version of the list
    pub version: String,
}

/// The API server.
#[derive(Clone)]
pub struct Api {
    client: Client,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Api")
    }
}

impl Api {
    /// Asks through this client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The client itself.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// All objects at a path, and the version of the list. One that cannot be read is an error: whoever reckons with the
    /// objects must know all of them.
    pub async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        params: &ListParams,
    ) -> Result<(Vec<T>, String), ApiError> {
        let listed = self.list_readable(path, params).await?;
        match listed.unreadable.first() {
            None => Ok((listed.objects, listed.version)),
            Some(unreadable) => Err(unreadable.into()),
        }
    }

    /// All objects at a path that can be read, and the others by name.
    pub async fn list_readable<T: DeserializeOwned>(
        &self,
        path: &str,
        params: &ListParams,
    ) -> Result<Listed<T>, ApiError> {
        let mut params = params.clone().limit(PAGE);
        let (mut objects, mut unreadable) = (Vec::new(), Vec::new());
        loop {
            let request = Request::new(path).list(&params).map_err(unsendable)?;
            let page: Page<Readable<T>> = answered(self.client.request(request)).await?;
            for Readable(item) in page.items {
                match item {
                    Ok(object) => objects.push(object),
                    Err(error) => unreadable.push(error),
                }
            }
            if page.metadata.r#continue.is_empty() {
                return Ok(Listed { objects, unreadable, version: page.metadata.resource_version });
            }
            params = params.continue_token(&page.metadata.r#continue);
        }
    }

    /// One object.
    pub async fn get<T: DeserializeOwned>(&self, path: &str, name: &str) -> Result<T, ApiError> {
        let request = Request::new(path).get(name, &kube::core::params::GetParams::default()).map_err(unsendable)?;
        answered(self.client.request(request)).await
    }

    /// Changes an object by a patch of this content type.
    pub async fn patch(&self, list: &str, name: &str, patch: &Value, kind: &'static str) -> Result<(), ApiError> {
        let params = PatchParams::default();
        let mut request = Request::new(list).patch(name, &params, &Patch::Merge(patch)).map_err(unsendable)?;
        let kind = http::HeaderValue::from_static(kind);
        request.headers_mut().insert(http::header::CONTENT_TYPE, kind);
        answered(self.client.request::<Value>(request)).await.map(drop)
    }

    /// Creates an object.
    pub async fn create(&self, path: &str, object: &Value) -> Result<(), ApiError> {
        let body = object.to_string().into_bytes();
        let request = Request::new(path).create(&PostParams::default(), body).map_err(unsendable)?;
        answered(self.client.request::<Value>(request)).await.map(drop)
    }

    /// Creates a subresource of an object.
    pub async fn create_subresource(
        &self,
        list: &str,
        name: &str,
        subresource: &str,
        object: &Value,
    ) -> Result<(), ApiError> {
        let body = object.to_string().into_bytes();
        let request = Request::new(list)
            .create_subresource(subresource, name, &PostParams::default(), body)
            .map_err(unsendable)?;
        answered(self.client.request::<Value>(request)).await.map(drop)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn unsendable(error: kube::core::request::Error) -> ApiError {
    ApiError::Silent(error.to_string())
}

async fn answered<T>(asked: impl Future<Output = Result<T, kube::Error>>) -> Result<T, ApiError> {
    match tokio::time::timeout(ANSWER_TIMEOUT, asked).await {
        Ok(answer) => answer.map_err(ApiError::from),
        Err(_) => Err(ApiError::Silent(format!("none in {} s", ANSWER_TIMEOUT.as_secs()))),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::WatchEvent;

    use super::*;

    #[derive(Clone, Debug, Deserialize)]
    struct Thing {
        size: u32,
    }

    fn event(line: &str) -> Result<u32, (String, String)> {
        match serde_json::from_str::<WatchEvent<Readable<Thing>>>(line).expect("an event") {
            WatchEvent::Added(Readable(read)) => read.map(|thing| thing.size).map_err(|one| (one.object, one.version)),
            WatchEvent::Bookmark(bookmark) => Err((String::new(), bookmark.metadata.resource_version)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn events_are_read_in_any_order_of_their_fields_and_what_cannot_be_read_is_named() {
        let (meta, named) =
            (r#""metadata":{"namespace":"n","name":"a","resourceVersion":"7"}"#, Err(("n/a".into(), "7".into())));
        let object = |size: &str| format!(r#"{{"kind":"Thing","apiVersion":"v1",{meta},"size":{size}}}"#);
        for (size, expected) in [("3", Ok(3)), ("\"large\"", named.clone()), ("-1", named)] {
            let object = object(size);
            assert_eq!(event(&format!(r#"{{"type":"ADDED","object":{object}}}"#)), expected);
            assert_eq!(event(&format!(r#"{{"object":{object},"type":"ADDED"}}"#)), expected);
        }
        let line = format!(r#"{{"type":"BOOKMARK","object":{}}}"#, object("0"));
        assert_eq!(event(&line), Err((String::new(), "7".to_owned())));
    }
}
