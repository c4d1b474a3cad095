//! Watches against an API server in the process that brings what cannot be read.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use schedpatch_service::api::Api;
use schedpatch_service::feed::{Change, Query, Watched, follow};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::Instant;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Thing {
    metadata: Meta,
    size: u32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    name: String,
    resource_version: String,
}

impl Watched for Thing {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

fn thing(name: &str, version: u64, size: impl Into<Value>) -> Value {
    json!({ "metadata": { "name": name, "resourceVersion": version.to_string() }, "size": size.into() })
}

/// Objects in the order of their versions; a watch brings those behind the version that it begins at, and then ends.
#[derive(Clone, Default)]
struct Server {
    objects: Arc<Mutex<Vec<Value>>>,
    lists: Arc<Mutex<Vec<Instant>>>,
    watches: Arc<Mutex<Vec<u64>>>,
}

impl Server {
    /// Puts an object in the place of the one with the same name.
    fn set(&self, object: Value) {
        let mut objects = self.objects.lock().expect("unpoisoned");
        objects.retain(|old| old["metadata"]["name"] != object["metadata"]["name"]);
        objects.push(object);
    }

    fn lists(&self) -> usize {
        self.lists.lock().expect("unpoisoned").len()
    }

    fn answer(&self, request: &Request<Body>) -> String {
        let version = |object: &Value| -> u64 {
            let text = object["metadata"]["resourceVersion"].as_str().expect("a version");
            text.parse().expect("a number")
        };
        let objects = self.objects.lock().expect("unpoisoned").clone();
        let query = request.uri().query().unwrap_or_default();
        if !query.contains("watch=true") {
            self.lists.lock().expect("unpoisoned").push(Instant::now());
            let last = objects.iter().map(version).max().unwrap_or(0);
            return json!({ "metadata": { "resourceVersion": last.to_string() }, "items": objects }).to_string();
        }
        let since = query.split("resourceVersion=").nth(1).and_then(|rest| rest.split('&').next());
        let since: u64 = since.and_then(|text| text.parse().ok()).expect("a version");
        self.watches.lock().expect("unpoisoned").push(since);
        let events = objects.iter().filter(|object| version(object) > since);
        // as the API server writes it: the type first
        let lines = events.map(|object| format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n"));
        lines.collect::<Vec<_>>().concat()
    }

    /// Follows the things; watches and lists take a while, so that the test does not spin.
    fn follow(&self) -> Receiver<Change<Thing>> {
        let server = self.clone();
        let client = Client::new(
            tower::service_fn(move |request: Request<Body>| {
                let server = server.clone();
                async move {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    let body = server.answer(&request);
                    Ok::<_, Infallible>(Response::new(Body::from(body.into_bytes())))
                }
            }),
            "default",
        );
        let query = Query { path: "/things", fields: String::new(), labels: String::new() };
        let (sink, changes) = channel(64);
        tokio::spawn(follow(Api::new(client), query, Duration::from_secs(30), sink));
        changes
    }
}

/// Waits until a list or an event shows an object of this name.
async fn expect(changes: &mut Receiver<Change<Thing>>, name: &str) {
    let search = async {
        loop {
            let found = match changes.recv().await.expect("it follows for ever") {
                Change::Reset(all) => all.iter().any(|thing| thing.metadata.name == name),
                Change::Set(thing) => thing.metadata.name == name,
                _ => false,
            };
            if found {
                return;
            }
        }
    };
    let found = tokio::time::timeout(Duration::from_mins(1), search).await;
    assert!(found.is_ok(), "{name} was not seen within a minute");
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_behind_an_event_that_cannot_be_read() {
    let server = Server::default();
    server.set(thing("first", 1, 1));
    let mut changes = server.follow();
    expect(&mut changes, "first").await;
    server.set(thing("unreadable", 2, "large"));
    server.set(thing("after", 3, 1));
    expect(&mut changes, "after").await;
    assert_eq!(server.lists(), 2, "one list leaves the event behind");
    tokio::spawn(async move { while changes.recv().await.is_some() {} });
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(server.lists(), 2, "and no further one is needed");
    assert_eq!(server.watches.lock().expect("unpoisoned").last(), Some(&3));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_does_not_hide_the_others() {
    let server = Server::default();
    server.set(thing("unreadable", 1, "large"));
    server.set(thing("second", 2, 1));
    let mut changes = server.follow();
    expect(&mut changes, "second").await;
    server.set(thing("third", 3, 1));
    expect(&mut changes, "third").await;
    assert_eq!(server.lists(), 1, "the list is enough");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_left_out_may_change_again_and_again_without_a_further_list() {
    let server = Server::default();
    server.set(thing("unreadable", 1, "large"));
    let mut changes = server.follow();
    for version in 2..200 {
        server.set(thing("unreadable", version, "large"));
        tokio::time::sleep(Duration::from_millis(100)).await;
        while changes.try_recv().is_ok() {}
    }
    server.set(thing("after", 200, 1));
    expect(&mut changes, "after").await;
    assert_eq!(server.lists(), 1);
    server.set(thing("unreadable", 201, 1));
    expect(&mut changes, "unreadable").await;
    assert_eq!(server.lists(), 1, "once it can be read it is back");
}

#[tokio::test(start_paused = true)]
async fn ever_new_objects_that_cannot_be_read_do_not_become_a_storm_of_lists() {
    let server = Server::default();
    let mut changes = server.follow();
    tokio::spawn(async move { while changes.recv().await.is_some() {} });
    for version in 1..=600 {
        server.set(thing(&format!("unreadable-{version}"), version, "large"));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!((10..25).contains(&server.lists()), "{} lists in a minute", server.lists());
}

#[tokio::test(start_paused = true)]
async fn whoever_reckons_with_all_objects_gets_an_error_that_names_the_unreadable_one() {
    let client = Client::new(
        tower::service_fn(|_: Request<Body>| async {
            let body = json!({ "items": [thing("a", 1, 1), thing("b", 2, "large")] }).to_string();
            Ok::<_, Infallible>(Response::new(Body::from(body.into_bytes())))
        }),
        "default",
    );
    let listed = Api::new(client).list::<Thing>("/things", &kube::core::params::ListParams::default()).await;
    let error = listed.expect_err("it cannot be read").to_string();
    assert!(error.contains("b: invalid type"), "{error}");
}
