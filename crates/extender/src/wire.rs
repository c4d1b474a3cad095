//! What kube-scheduler sends and reads: `ExtenderArgs`, `ExtenderFilterResult`, `HostPriorityList` of `k8s.io/kube-scheduler/extender/v1`.
//!
//! Keys are accepted in any case, as Go does; unknown ones are skipped. Node objects are never decoded: their bytes are
//! skipped once, and only the name at their beginning is read.

mod answer;
mod object;
mod text;

use serde_json::value::RawValue;

pub use answer::{Piece, filter_answer, pass_answer, scores_answer};
pub use text::Text;

use object::object;

/// A request: a pod and the nodes that are left for it.
#[derive(Debug, Default)]
pub struct Args<'a> {
    /// The pod
    pub pod: Pod<'a>,
    /// Full objects, if the scheduler is set to `nodeCacheCapable: false`
    pub nodes: Option<NodeList<'a>>,
    /// Names, if it is set to `nodeCacheCapable: true`
    pub node_names: Option<Vec<Text<'a>>>,
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
    pub owner_references: Vec<Owner<'a>>,
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
    pub items: Vec<&'a RawValue>,
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
        self.0.iter().find(|(own, _)| &**own == key).map(|(_, value)| &**value)
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
    Json(#[from] serde_json::Error),
    /// A node has no name
    #[error("item {0} of Nodes has no metadata.name")]
    Nameless(usize),
}

/// Reads a request.
pub fn read(body: &[u8]) -> Result<(Pod<'_>, Asked<'_>), WireError> {
    let args: Args<'_> = serde_json::from_slice(body)?;
    let asked = match (args.node_names, args.nodes) {
        (Some(names), _) => Asked::Names(names),
        (None, Some(list)) => {
            let items = list.items.iter().enumerate();
            let names = items.map(|(at, item)| object::name_of(item).ok_or(WireError::Nameless(at)));
            Asked::Objects(names.collect::<Result<_, _>>()?, list.items)
        }
        (None, None) => Asked::Names(Vec::new()),
    };
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
}
