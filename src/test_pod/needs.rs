//! Whether the scheduler may do what its plugins need, by the API server's own answer.

use kube::Client;
use kube::api::PostParams;
use kube::core::Request;
use serde::Deserialize;
use serde_json::json;

use crate::cluster::answer;

/// The user that kube-scheduler is, wherever kubeadm and its like have made its credentials.
pub const SCHEDULER_USER: &str = "system:kube-scheduler";

/// Something that the scheduler must be allowed to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    verb: String,
    group: String,
    resource: String,
    subresource: String,
}

impl Need {
    /// Reads `VERB RESOURCE[.GROUP][/SUBRESOURCE]`, as `patch pods/status` or `list elasticquotas.scheduling.x-k8s.io`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "write VERB RESOURCE[.GROUP][/SUBRESOURCE], for example: patch pods/status".to_owned();
        let (verb, what) = text.trim().split_once(' ').ok_or_else(wrong)?;
        let (what, subresource) = what.trim().split_once('/').unwrap_or_else(|| (what.trim(), ""));
        let (resource, group) = what.split_once('.').unwrap_or((what, ""));
        let is_plain =
            |part: &str| part.bytes().all(|byte| byte.is_ascii_lowercase() || b".-*0123456789".contains(&byte));
        if verb.is_empty() || resource.is_empty() || ![verb, resource, group, subresource].into_iter().all(is_plain) {
            return Err(wrong());
        }
        let [verb, group, resource, subresource] = [verb, group, resource, subresource].map(str::to_owned);
        Ok(Self { verb, group, resource, subresource })
    }

    /// As it is written.
    pub fn text(&self) -> String {
        let group = if self.group.is_empty() { String::new() } else { format!(".{}", self.group) };
        let subresource = if self.subresource.is_empty() { String::new() } else { format!("/{}", self.subresource) };
        format!("{} {}{group}{subresource}", self.verb, self.resource)
    }

    /// The rule of a ClusterRole that allows it, on one line.
    pub fn rule(&self) -> String {
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        let resource = format!("{}{slash}{}", self.resource, self.subresource);
        format!("{{apiGroups: [\"{}\"], resources: [{resource}], verbs: [{}]}}", self.group, self.verb)
    }
}

#[derive(Debug, Deserialize)]
struct Review {
    status: Option<ReviewStatus>,
}

#[derive(Debug, Deserialize)]
struct ReviewStatus {
    allowed: bool,
}

/// What of these a user may not do.
pub async fn missing<'n>(client: &Client, user: &str, needs: &'n [Need]) -> Result<Vec<&'n Need>, String> {
    let mut missing = Vec::new();
    for need in needs {
        let Need { verb, group, resource, subresource } = need;
        let review = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
            "user": user, "groups": ["system:authenticated"],
            "resourceAttributes": { "verb": verb, "group": group, "resource": resource, "subresource": subresource } } });
        let body = serde_json::to_vec(&review).map_err(|error| error.to_string())?;
        let request = Request::new("/apis/authorization.k8s.io/v1/subjectaccessreviews");
        let request = request.create(&PostParams::default(), body).map_err(|error| error.to_string())?;
        let review: Review = answer(client.request(request)).await?;
        if !review.status.is_some_and(|status| status.allowed) {
            missing.push(need);
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_is_read_as_people_write_it() {
        for text in ["patch pods/status", "list elasticquotas.scheduling.x-k8s.io", "update pods", "* nodes"] {
            assert_eq!(Need::parse(text).expect("it is one").text(), text);
        }
        for wrong in ["", "patch", "patch ", " pods", "patch Pods", "patch pods;rm"] {
            assert!(Need::parse(wrong).is_err(), "{wrong:?}");
        }
        let rule = Need::parse("patch pods/status").expect("it is one").rule();
        assert_eq!(rule, "{apiGroups: [\"\"], resources: [pods/status], verbs: [patch]}");
    }
}
