//! The small pod of `schedpatch verify`: it goes, whatever happens to its maker and to the API.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use schedpatch::test_pod::{self, Outcome, TestPod};
use serde_json::{Value, json};

/// What the API does, and what it holds.
#[derive(Debug, Default)]
struct Api {
    /// Names of pods that are there
    pods: Vec<String>,
    /// All that ever were there, whole
    made: Vec<Value>,
    /// A pod is bound when it was asked for so often
    looks: u32,
    /// The code of the answer to a creation that is carried out all the same
    lost_answer: Option<u16>,
    /// So many questions for the pod are answered with 500
    failing_looks: u32,
    /// The same for its removal
    failing_removals: u32,
}

type Shared = Arc<Mutex<Api>>;

fn client(api: &Shared) -> Client {
    let api = Arc::clone(api);
    let service = tower::service_fn(move |request: Request<Body>| {
        let api = Arc::clone(&api);
        async move {
            let (method, name) =
                (request.method().clone(), request.uri().path().rsplit('/').next().unwrap_or_default().to_owned());
            let body = request.into_body().collect().await.expect("a body").to_bytes();
            Ok::<_, std::convert::Infallible>(answer(&mut api.lock().expect("a lock"), &method, &name, &body))
        }
    });
    Client::new(service, "default")
}

fn answer(api: &mut Api, method: &Method, name: &str, body: &Bytes) -> Response<Full<Bytes>> {
    let with = |code: u16, object: &Value| {
        Response::builder().status(code).body(Full::from(object.to_string())).expect("an answer")
    };
    let failure = |code: u16| {
        with(code, &json!({ "kind": "Status", "status": "Failure", "message": "no", "reason": "no", "code": code }))
    };
    let fails = |left: &mut u32| std::mem::replace(left, left.saturating_sub(1)) > 0;
    if *method == Method::POST {
        if api.lost_answer == Some(403) {
            return failure(403);
        }
        let pod: Value = serde_json::from_slice(body).expect("a pod");
        api.pods.push(pod["metadata"]["name"].as_str().expect("a name").to_owned());
        api.made.push(pod.clone());
        return api.lost_answer.map_or_else(|| with(201, &pod), failure);
    }
    if !api.pods.iter().any(|own| own == name) {
        return failure(404);
    }
    if *method == Method::DELETE {
        if fails(&mut api.failing_removals) {
            return failure(500);
        }
        api.pods.clear();
        return with(200, &json!({}));
    }
    if fails(&mut api.failing_looks) {
        return failure(500);
    }
    api.looks += 1;
    let node = if api.looks > 3 { json!("cp1") } else { Value::Null };
    with(200, &json!({ "spec": { "nodeName": node } }))
}

fn verify(api: Api, stop_after: Option<u64>) -> (Result<Outcome, String>, Api) {
    let api = Arc::new(Mutex::new(api));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    let wanted = TestPod { namespace: "n".to_owned(), scheduler: None, timeout: Duration::from_mins(1) };
    let stop = async {
        match stop_after {
            Some(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
            None => std::future::pending().await,
        }
    };
    let outcome = runtime.block_on(async { test_pod::run(&client(&api), &wanted, stop).await });
    drop(runtime);
    (outcome, std::mem::take(&mut *api.lock().expect("a lock")))
}

#[test]
fn a_pod_that_is_bound_is_removed() {
    let (outcome, api) = verify(Api::default(), None);
    assert!(matches!(outcome, Ok(Outcome::Bound { ref node, .. }) if node == "cp1"), "{outcome:?}");
    assert!(api.pods.is_empty());
    let pod = &api.made[0];
    assert_eq!(pod["metadata"]["labels"]["app.kubernetes.io/part-of"], "schedpatch");
    assert_eq!(pod["spec"]["activeDeadlineSeconds"], 120, "should nobody be left to remove it");
}

#[test]
fn questions_without_an_answer_do_not_end_it() {
    let (outcome, api) = verify(Api { failing_looks: 5, ..Api::default() }, None);
    assert!(matches!(outcome, Ok(Outcome::Bound { .. })), "{outcome:?}");
    assert!(api.pods.is_empty());
}

#[test]
fn a_pod_whose_creation_was_answered_with_an_error_is_removed_too() {
    let (outcome, api) = verify(Api { lost_answer: Some(500), ..Api::default() }, None);
    assert!(outcome.is_err() && api.pods.is_empty() && api.made.len() == 1, "{outcome:?}");
    let (outcome, api) = verify(Api { lost_answer: Some(403), ..Api::default() }, None);
    assert!(outcome.is_err_and(|why| !why.contains("removed")) && api.made.is_empty(), "there is none to remove");
}

#[test]
fn whoever_is_interrupted_removes_it_first() {
    let (outcome, api) = verify(Api { failing_looks: 50, ..Api::default() }, Some(2_500));
    assert_eq!((outcome, api.pods.len()), (Err("interrupted".to_owned()), 0));
}

#[test]
fn a_removal_is_tried_again_and_what_is_left_is_named_beside_all_else() {
    let (outcome, api) = verify(Api { failing_removals: 2, ..Api::default() }, None);
    assert!(outcome.is_ok() && api.pods.is_empty(), "{outcome:?}");
    let (outcome, api) = verify(Api { failing_removals: 99, failing_looks: 999, ..Api::default() }, None);
    let why = outcome.expect_err("nothing came of it");
    assert!(why.contains(&api.pods[0]) && why.contains("could not be removed"), "{why}");
}
