//! What kube-scheduler sends and reads: `ExtenderArgs`, `ExtenderFilterResult`, `HostPriorityList` of `k8s.io/kube-scheduler/extender/v1`.
//!
//! Keys are accepted in any case, as Go does; unknown ones are skipped. Node objects are never decoded: their bytes are
//! skipped once, and only the name at their beginning is read.

mod answer;
mod list;
mod object;
mod text;

use schedpatch_service::log::shortened;
use serde_json::value::RawValue;

pub use answer::{Piece, filter_answer, pass_answer, scores_answer};
pub use list::List;
pub use text::Text;

use object::object;

/// The longest name that Kubernetes allows.
const MAX_NAME_BYTES: usize = 253;
/// So much of a parser's words is shown; they may quote the whole request.
const MAX_REASON_BYTES: usize = 200;

/// A request: a pod and the nodes that are left for it.
#[derive(Debug, Default)]
pub struct Args<'a> {
    /// The pod
    pub pod: Pod<'a>,
    /// Full objects, if the scheduler is set to `nodeCacheCapable: false`
    pub nodes: Option<NodeList<'a>>,
    /// Names, if it is set to `nodeCacheCapable: true`
    pub node_names: Option<List<Text<'a>>>,
}

/// The part of a pod that decides which policies count for it.
#[derive(Debug, Default)]
pub struct Pod<'a> {
    /// Its metadata
    pub metadata: Metadata<'a>,
}

/// Metadata of a pod.
#[derive(Debug, Default)]
pub struct Metadata<'a> {
    /// Name; empty before the API server has made one
    pub name: Text<'a>,
    /// Namespace
    pub namespace: Text<'a>,
    /// UID
    pub uid: Text<'a>,
    /// Labels
    pub labels: Pairs<'a>,
    /// Annotations
    pub annotations: Pairs<'a>,
    /// Owners
    pub owner_references: List<Owner<'a>>,
}

/// Labels or annotations.
#[derive(Debug, Default)]
pub struct Pairs<'a>(pub Vec<(Text<'a>, Text<'a>)>);

/// An owner of a pod.
#[derive(Debug, Default)]
pub struct Owner<'a> {
    /// Its kind
    pub kind: Text<'a>,
    /// Whether it is the one that manages the pod
    pub controller: bool,
}

/// Full Node objects, as they came.
#[derive(Debug, Default)]
pub struct NodeList<'a> {
    /// Each as its text
    pub items: List<&'a RawValue>,
}

object!(Args { "pod" => pod, "nodes" => nodes, "nodeNames" => node_names });
object!(Pod { "metadata" => metadata });
object!(Metadata {
    "name" => name, "namespace" => namespace, "uid" => uid, "labels" => labels, "annotations" => annotations,
    "ownerReferences" => owner_references,
});
object!(Owner { "kind" => kind, "controller" => controller });
object!(NodeList { "items" => items });

impl Pairs<'_> {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        // of keys that come twice the last one counts, as in Go
        self.0.iter().rev().find(|(own, _)| &**own == key).map(|(_, value)| &**value)
    }
}

/// The nodes of a request, in the form that they came in.
#[derive(Debug)]
pub enum Asked<'a> {
    /// Names
    Names(Vec<Text<'a>>),
    /// Names and the objects that they were taken from
    Objects(Vec<Text<'a>>, Vec<&'a RawValue>),
}

impl<'a> Asked<'a> {
    /// Names, whatever the form.
    pub fn names(&self) -> &[Text<'a>] {
        match self {
            Self::Names(names) | Self::Objects(names, _) => names,
        }
    }
}

/// Why a request cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// It is no JSON, or not of the expected form
    #[error("the body is not an ExtenderArgs object: {0}")]
    Json(String),
    /// A node has no name
    #[error("item {0} of Nodes has no metadata.name")]
    Nameless(usize),
    /// A name or UID is longer than Kubernetes allows
    #[error("the body is not an ExtenderArgs object: {0} has more than {MAX_NAME_BYTES} bytes")]
    TooLong(&'static str),
}

/// Reads a request.
pub fn read(body: &[u8]) -> Result<(Pod<'_>, Asked<'_>), WireError> {
    let wrong = |why: String| WireError::Json(shortened(&why, MAX_REASON_BYTES));
    // once for the whole body, which is less than once for each of its strings
    let text = std::str::from_utf8(body).map_err(|error| wrong(error.to_string()))?;
    let args: Args<'_> = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let meta = &args.pod.metadata;
    // they are kept for explanations, so they must be as short as they are in a cluster
    for (what, text) in [("the pod's name", &meta.name), ("its namespace", &meta.namespace), ("its UID", &meta.uid)] {
        if text.len() > MAX_NAME_BYTES {
            return Err(WireError::TooLong(what));
        }
    }
    let asked = match (args.node_names, args.nodes) {
        (Some(names), _) => Asked::Names(names.0),
        (None, Some(list)) => {
            let items = list.items.iter().enumerate();
            let names = items.map(|(at, item)| object::name_of(item).ok_or(WireError::Nameless(at)));
            Asked::Objects(names.collect::<Result<_, _>>()?, list.items.0)
        }
        (None, None) => Asked::Names(Vec::new()),
    };
    if asked.names().iter().any(|name| name.len() > MAX_NAME_BYTES) {
        return Err(WireError::TooLong("the name of a node"));
    }
    Ok((args.pod, asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(body: &str) -> Vec<String> {
        let (_, asked) = read(body.as_bytes()).expect("it is a request");
        asked.names().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_names_form_is_read_in_any_case_with_unknown_fields_skipped() {
        let body = r#"{"Pod":{"metadata":{"name":"a","namespace":"b","uid":"c","labels":{"app":"x"},"ownerReferences":
            [{"apiVersion":"v1","kind":"DaemonSet","controller":true}],"more":[1,{"x":null}]},"spec":{"nodeName":""}},
            "Nodes":null,"NodeNames":["n1","n\u00312"],"New":{"deep":[[[]]]}}"#;
        for body in [body.to_owned(), body.replace("Pod", "pod").replace("NodeNames", "nodenames")] {
            let (pod, asked) = read(body.as_bytes()).expect("it is a request");
            let meta = &pod.metadata;
            assert_eq!((&*meta.name, &*meta.namespace, &*meta.uid), ("a", "b", "c"));
            assert_eq!(meta.labels.get("app"), Some("x"));
            assert!(&*meta.owner_references[0].kind == "DaemonSet" && meta.owner_references[0].controller);
            assert_eq!(asked.names().iter().map(|name| &**name).collect::<Vec<_>>(), ["n1", "n12"]);
        }
    }

    #[test]
    fn the_nodes_form_gives_names_wherever_they_are() {
        assert_eq!(names(r#"{"Nodes":{"metadata":{},"items":[{"metadata":{"name":"a"},"spec":{}}]}}"#), ["a"]);
        let late = r#"{"nodes":{"Items":[{"spec":{"name":"no"},"status":{"metadata":{"name":"no"}},"metadata":{"labels":{"name":"no"},"name":"b\u0031"}}]}}"#;
        assert_eq!(names(late), ["b1"]);
        assert!(names("{}").is_empty() && names(r#"{"Nodes":{"items":null},"NodeNames":null}"#).is_empty());
    }

    #[test]
    fn what_is_no_request_is_an_error_that_says_where() {
        for wrong in ["", "[]", "{", "nonsense", r#"{"NodeNames":[1]}"#, r#"{"Nodes":{"items":[{"spec":{}}]}}"#] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let error = read(br#"{"Nodes":{"items":[{"metadata":{"name":"a"}},{}]}}"#).expect_err("nameless").to_string();
        assert!(error.contains("item 1"), "{error}");
    }

    #[test]
    fn nothing_that_is_kept_or_shown_is_longer_than_in_a_cluster() {
        let long = "x".repeat(1_000_000);
        for wrong in [
            format!(r#"{{"Pod":"{long}"}}"#),
            format!(r#"{{"Pod":{{"metadata":{{"name":"{long}"}}}}}}"#),
            format!(r#"{{"Pod":{{"metadata":{{"namespace":"{long}"}}}}}}"#),
            format!(r#"{{"Pod":{{"metadata":{{"uid":"{long}"}}}}}}"#),
            format!(r#"{{"NodeNames":["{long}"]}}"#),
            format!(r#"{{"Nodes":{{"items":[{{"metadata":{{"name":"{long}"}}}}]}}}}"#),
            format!(r#"{{"NodeNames":["a"{}]}}"#, r#","a""#.repeat(list::MAX_ENTRIES)),
            format!(r#"{{"Nodes":{{"items":[1{}]}}}}"#, ",1".repeat(list::MAX_ENTRIES)),
            format!(r#"{{"Pod":{{"metadata":{{"labels":{{"a":""{}}}}}}}}}"#, r#","a":"""#.repeat(list::MAX_ENTRIES)),
        ] {
            let error = read(wrong.as_bytes()).expect_err("too much").to_string();
            assert!(error.len() < 400, "{} bytes", error.len());
        }
        assert!(read(format!(r#"{{"NodeNames":["{}"]}}"#, "x".repeat(253)).as_bytes()).is_ok());
    }

    #[test]
    fn of_keys_that_come_twice_the_last_one_counts_as_in_go() {
        let body = br#"{"Pod":{"metadata":{"name":"a","labels":{"k":"1","k":"2"}}},"pod":{"metadata":{"namespace":"n","labels":{"k":"3","k":"4"}}},"NodeNames":["a"],"nodeNames":["b"]}"#;
        let (pod, asked) = read(body).expect("it is a request");
        assert_eq!((pod.metadata.labels.get("k"), &*pod.metadata.namespace), (Some("4"), "n"));
        assert_eq!(asked.names(), [Text::from("b")]);
    }
}
