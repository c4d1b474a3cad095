//! The preflight of a static pod: a second static pod in which the scheduler reads its configuration, creates its plugins and
//! ends, while the running one goes on. Pure.
//!
//! With `--write-config-to` a kube-scheduler ends once it and its plugins are created: before it takes part in an election,
//! watches anything or serves.

use serde_json::{Map, Value, json};

use super::pod;
use crate::revision::Digest;
use crate::target::{Identity, PreflightManifest, PreflightRun, Refusal, Rule};

/// Names of all preflights, of their files and of their pods, begin with this.
const PREFIX: &str = "schedpatch-preflight-";

/// What of the pod the scheduler's answer depends on. No labels: `kubeadm upgrade` waits for every pod with the scheduler's.
const OF_POD: [&str; 5] = ["hostNetwork", "dnsPolicy", "dnsConfig", "hostAliases", "securityContext"];
/// The same of its container. No ports, probes or resources: nothing may refuse it for lack of room.
const OF_CONTAINER: [&str; 8] =
    ["image", "imagePullPolicy", "command", "args", "workingDir", "env", "volumeMounts", "securityContext"];

/// The last flag of a name counts. A fork that ignores the first one serves nothing, and takes part in an election that it
/// cannot win, whatever its rights are: the Lease would be in a namespace that does not exist.
const FLAGS: [&str; 5] = [
    "--write-config-to=/dev/null",
    "--secure-port=0",
    "--leader-elect=true",
    "--leader-elect-resource-name=schedpatch-preflight",
    "--leader-elect-resource-namespace=schedpatch-preflight-never",
];

/// Whether a file of the manifest directory is a preflight's: `schedpatch-preflight-SUBJECT-NUMBER.yaml`.
pub(crate) fn is_preflight(name: &str) -> bool {
    let middle = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(".yaml"));
    middle.and_then(|middle| middle.rsplit_once('-')).is_some_and(|(subject, number)| {
        !subject.is_empty()
            && subject.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The preflight of a text.
pub(super) fn manifest(text: &str, run: &PreflightRun<'_>) -> Result<PreflightManifest, Refusal> {
    let spec = pod::read(text)?;
    let unreadable = |why: String| Refusal::new(Rule::MalformedPod, format!("cannot make a preflight of it: {why}"));
    let whole: Value = serde_yaml::from_str(text).map_err(|error| unreadable(error.to_string()))?;
    let containers = whole["spec"]["containers"].as_array().map_or(&[][..], Vec::as_slice);
    let container = containers.iter().find(|own| own["name"] == spec.identity.container.as_str());
    let container = container.ok_or_else(|| unreadable("the scheduler's container is not found again".to_owned()))?;
    let mut tried = picked(container, &OF_CONTAINER);
    let list = if container["args"].as_array().is_some_and(|args| !args.is_empty()) { "args" } else { "command" };
    if let Some(Value::Array(words)) = tried.get_mut(list) {
        words.extend(FLAGS.map(Value::from));
    }
    tried.insert("name".to_owned(), json!(spec.identity.container));
    tried.insert("terminationMessagePolicy".to_owned(), json!("FallbackToLogsOnError"));
    let is_mounted = |volume: &&Value| {
        let mut mounts = container["volumeMounts"].as_array().into_iter().flatten();
        mounts.any(|mount| mount["name"] == volume["name"])
    };
    let volumes: Vec<&Value> = whole["spec"]["volumes"].as_array().into_iter().flatten().filter(is_mounted).collect();
    let mut pod = picked(&whole["spec"], &OF_POD);
    pod.insert("containers".to_owned(), json!([tried]));
    pod.insert("volumes".to_owned(), json!(volumes));
    pod.insert("restartPolicy".to_owned(), json!("Never"));
    pod.insert("terminationGracePeriodSeconds".to_owned(), json!(1));
    let identity = Digest::of_bytes(Value::Object(pod.clone()).to_string().as_bytes());
    pod.insert("activeDeadlineSeconds".to_owned(), json!(run.deadline));
    let name = format!("{PREFIX}{}-{}", run.subject, run.attempt);
    let namespace = spec.identity.namespace;
    let manifest =
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": namespace }, "spec": pod });
    let content = serde_json::to_string_pretty(&manifest).map_err(|error| unreadable(error.to_string()))?;
    Ok(PreflightManifest {
        file: format!("{name}.yaml"),
        content: content + "\n",
        identity: Identity { namespace, name, container: spec.identity.container },
        attempt: run.attempt,
        tried: identity,
    })
}

fn picked(from: &Value, keys: &[&str]) -> Map<String, Value> {
    let own = keys.iter().filter_map(|key| Some(((*key).to_owned(), from.get(*key)?.clone())));
    own.filter(|(_, value)| !value.is_null()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../../../examples/host/etc/kubernetes/manifests/kube-scheduler.yaml");
    const RUN: PreflightRun<'_> = PreflightRun { subject: "0123456789ab", attempt: 7, deadline: 60 };

    fn made(text: &str) -> (PreflightManifest, Value) {
        let made = manifest(text, &RUN).expect("a preflight");
        let value = serde_json::from_str(&made.content).expect("JSON");
        (made, value)
    }

    #[test]
    fn it_has_what_the_scheduler_sees_and_nothing_that_others_look_for() {
        let (made, value) = made(TEXT);
        let own: Value = serde_yaml::from_str(TEXT).expect("YAML");
        assert_eq!((made.file.as_str(), is_preflight(&made.file)), ("schedpatch-preflight-0123456789ab-7.yaml", true));
        assert_eq!(value["metadata"], json!({ "name": made.identity.name, "namespace": "kube-system" }));
        let (tried, running) = (&value["spec"]["containers"][0], &own["spec"]["containers"][0]);
        for key in ["image", "imagePullPolicy", "volumeMounts", "securityContext", "env"] {
            assert_eq!(tried.get(key), running.get(key), "{key}");
        }
        for key in ["livenessProbe", "readinessProbe", "startupProbe", "ports", "resources"] {
            assert_eq!(tried.get(key), None, "{key}");
        }
        for key in ["priority", "priorityClassName", "tolerations"] {
            assert_eq!(value["spec"].get(key), None, "{key}");
        }
        assert_eq!(value["spec"]["hostNetwork"], json!(true));
        assert_eq!(value["spec"]["volumes"], own["spec"]["volumes"]);
        assert_eq!(
            (&value["spec"]["restartPolicy"], &value["spec"]["activeDeadlineSeconds"]),
            (&json!("Never"), &json!(60))
        );
        let command = tried["command"].as_array().expect("a command");
        let (kept, added) = command.split_at(command.len() - FLAGS.len());
        assert_eq!(kept, running["command"].as_array().expect("a command").as_slice());
        assert_eq!(added, FLAGS.map(Value::from));
    }

    #[test]
    fn its_flags_come_last_where_arguments_follow_the_command() {
        let text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: kube-scheduler\nspec:\n  containers:\n  - name: s\n    image: x:v1.36.4\n    \
                    command: [kube-scheduler]\n    args: [--secure-port=10259]\n    volumeMounts:\n    - {name: a, mountPath: /a}\n  \
                    - name: sidecar\n    image: y\n  volumes:\n  - {name: a, hostPath: {path: /a}}\n  - {name: b, hostPath: {path: /b}}\n";
        let (_, value) = made(text);
        let containers = value["spec"]["containers"].as_array().expect("containers");
        assert_eq!(containers.len(), 1, "what runs beside the scheduler is not tried");
        assert_eq!(containers[0]["command"], json!(["kube-scheduler"]));
        assert_eq!(containers[0]["args"][0], json!("--secure-port=10259"));
        assert_eq!(containers[0]["args"][2], json!("--secure-port=0"));
        assert_eq!(value["spec"]["volumes"], json!([{ "name": "a", "hostPath": { "path": "/a" } }]));
        assert_eq!(value["metadata"]["namespace"], json!("default"));
    }

    #[test]
    fn what_the_schedulers_answer_depends_on_keeps_its_values() {
        let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: kube-scheduler, namespace: kube-system, labels: {component: x}}\nspec:\n  \
                    hostNetwork: true\n  dnsPolicy: ClusterFirstWithHostNet\n  dnsConfig: {searches: [a.example]}\n  \
                    hostAliases: [{ip: 192.0.2.1, hostnames: [a]}]\n  securityContext: {runAsUser: 65532}\n  \
                    priorityClassName: system-node-critical\n  containers:\n  - name: s\n    image: x:v1.36.4\n    \
                    imagePullPolicy: Always\n    workingDir: /w\n    command: [kube-scheduler]\n    \
                    env: [{name: HTTPS_PROXY, value: 'http://192.0.2.2'}]\n    securityContext: {readOnlyRootFilesystem: true}\n    \
                    resources: {requests: {cpu: 100m}}\n    ports: [{containerPort: 10259, hostPort: 10259}]\n    \
                    livenessProbe: {httpGet: {path: /livez, port: 10259}}\n    terminationMessagePolicy: File\n";
        let (_, value) = made(text);
        let own: Value = serde_yaml::from_str(text).expect("YAML");
        for key in OF_POD {
            assert!(own["spec"].get(key).is_some_and(|own| value["spec"].get(key) == Some(own)), "{key}");
        }
        let (tried, running) = (&value["spec"]["containers"][0], &own["spec"]["containers"][0]);
        for key in ["image", "imagePullPolicy", "workingDir", "env", "securityContext"] {
            assert!(running.get(key).is_some_and(|own| tried.get(key) == Some(own)), "{key}");
        }
        assert_eq!(tried["terminationMessagePolicy"], json!("FallbackToLogsOnError"));
        let keys = |value: &Value| value.as_object().expect("a mapping").keys().cloned().collect::<Vec<_>>();
        let of_pod =
            [&OF_POD[..], &["activeDeadlineSeconds", "containers", "restartPolicy", "terminationGracePeriodSeconds"]];
        for key in keys(&value["spec"]) {
            assert!(of_pod.concat().contains(&key.as_str()) || key == "volumes", "{key} may concern others");
        }
        for key in keys(tried) {
            let is_own = ["name", "terminationMessagePolicy"].contains(&key.as_str());
            assert!(is_own || OF_CONTAINER.contains(&key.as_str()), "{key} may concern others");
        }
    }

    #[test]
    fn two_attempts_at_one_text_try_the_same() {
        let again = PreflightRun { attempt: 8, deadline: 700, ..RUN };
        let (first, second) = (manifest(TEXT, &RUN).expect("made"), manifest(TEXT, &again).expect("made"));
        assert_eq!(first.tried, second.tried);
        assert_ne!(first.identity, second.identity);
        let other = manifest(&TEXT.replace("v1.36.1", "v1.36.9"), &RUN).expect("made");
        assert_ne!(first.tried, other.tried);
    }
}
