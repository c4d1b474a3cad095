//! Laws of composing, over random fragments that have nothing to do with each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::rng::Rng;
use schedpatch::compose::{self, Composed, Target, Version};
use schedpatch::finding::Finding;
use schedpatch::observe::Source;
use schedpatch::settings::SchedulerOverrides;
use schedpatch::target::{SchedulerSpec, static_pod};
use serde_json::{Value, json};

const ROUNDS: u64 = 300;

fn pod() -> SchedulerSpec {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/kubeadm-1.36/host/etc/kubernetes/manifests/kube-scheduler.yaml");
    static_pod::read(&std::fs::read_to_string(path).expect("readable")).expect("a scheduler")
}

fn compose(fragments: &[(String, Value)]) -> Result<Option<Composed>, Vec<Finding>> {
    let pod = pod();
    let target = Target { spec: &pod, version: Version::parse("v1.36.0").expect("a release"), base: None };
    let files = fragments.iter().map(|(name, value)| (name.clone(), value.to_string().into_bytes()));
    let source = Source { dir: "/config".to_owned(), files: files.collect() };
    compose::compose(&[source], &target, &SchedulerOverrides::default(), &[])
}

fn config(composed: &Composed) -> Value {
    let text = &composed.files["config.yaml"];
    let as_json: Value = serde_json::from_slice(text).expect("the composed file is JSON");
    assert_eq!(as_json, serde_yaml::from_slice::<Value>(text).expect("and YAML"), "and says the same as both");
    as_json
}

/// A fragment whose parts no other number has.
fn fragment(rng: &mut Rng, number: usize) -> Value {
    let mut fragment = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"});
    let extenders: Vec<_> = (0..rng.below(3))
        .map(|item| json!({"urlPrefix": format!("http://127.0.0.1:{number}/{item}"), "filterVerb": "f", "ignorable": true}))
        .collect();
    fragment["extenders"] = extenders.into();
    if rng.once_in(2) {
        fragment["profiles"] =
            json!([{"schedulerName": format!("profile-{number}"), "percentageOfNodesToScore": 10 + number}]);
    }
    match number {
        0 => fragment["parallelism"] = json!(3),
        1 => fragment["percentageOfNodesToScore"] = json!(44),
        _ => {}
    }
    fragment
}

fn fragments(rng: &mut Rng) -> Vec<(String, Value)> {
    (0..2 + rng.below(5)).map(|number| (format!("{number:02}.json"), fragment(rng, number))).collect()
}

/// A configuration as a set of parts: lists lose their order.
fn parts(config: &Value) -> BTreeSet<String> {
    let mut parts = BTreeSet::new();
    for (key, value) in config.as_object().expect("an object") {
        match value.as_array() {
            Some(items) => parts.extend(items.iter().map(|item| format!("{key}: {item}"))),
            None => drop(parts.insert(format!("{key}: {value}"))),
        }
    }
    parts
}

fn composed(fragments: &[(String, Value)]) -> Composed {
    compose(fragments).unwrap_or_else(|findings| panic!("{findings:?}")).expect("something is composed")
}

#[test]
fn composing_twice_gives_the_same_bytes() {
    for seed in 0..ROUNDS {
        let fragments = fragments(&mut Rng::new(seed));
        assert_eq!(composed(&fragments).files, composed(&fragments).files, "seed {seed}");
    }
}

#[test]
fn the_order_of_unrelated_fragments_does_not_matter() {
    for seed in 0..ROUNDS {
        let mut rng = Rng::new(seed);
        let fragments = fragments(&mut rng);
        let mut contents: Vec<Value> = fragments.iter().map(|(_, value)| value.clone()).collect();
        rng.shuffle(&mut contents);
        let shuffled: Vec<_> = fragments.iter().map(|(name, _)| name.clone()).zip(contents).collect();
        assert_eq!(parts(&config(&composed(&fragments))), parts(&config(&composed(&shuffled))), "seed {seed}");
    }
}

#[test]
fn removing_a_fragment_removes_exactly_its_part() {
    for seed in 0..ROUNDS {
        let mut rng = Rng::new(seed);
        let mut fragments = fragments(&mut rng);
        let before = parts(&config(&composed(&fragments)));
        let (_, removed) = fragments.remove(rng.below(fragments.len()));
        let after = parts(&config(&composed(&fragments)));
        let gone: BTreeSet<_> = before.difference(&after).cloned().collect();
        let mut own = parts(&removed);
        own.retain(|part| !part.starts_with("apiVersion") && !part.starts_with("kind"));
        // with the last profile the implicit one, which was written out beside it, goes too
        let implicit = "profiles: {\"schedulerName\":\"default-scheduler\"}".to_owned();
        if gone.contains(&implicit) {
            assert!(!after.iter().any(|part| part.starts_with("profiles")), "seed {seed}");
            own.insert(implicit);
        }
        assert_eq!(gone, own, "seed {seed}");
        assert!(after.is_subset(&before), "seed {seed}: something came that nobody asked for");
    }
}

#[test]
fn the_default_profile_is_always_there() {
    for seed in 0..ROUNDS {
        let config = config(&composed(&fragments(&mut Rng::new(seed))));
        let profiles = config["profiles"].as_array().cloned().unwrap_or_default();
        let has_default = profiles.iter().any(|profile| profile["schedulerName"] == "default-scheduler");
        assert!(profiles.is_empty() || has_default, "seed {seed}: pods of default-scheduler would stay pending");
    }
}

#[test]
fn an_extender_that_can_stop_all_scheduling_is_refused_unless_a_person_insists() {
    let blocking = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "extenders": [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "f", "nodeCacheCapable": true}]});
    let findings = compose(&[("a.json".to_owned(), blocking)]).expect_err("it is refused");
    assert_eq!(findings.iter().map(|finding| finding.rule).collect::<Vec<_>>(), ["blocking-extender"]);
}

/// Much to read is read on several threads, which must not show.
#[test]
fn what_is_composed_does_not_depend_on_how_much_there_is_to_read() {
    let pod = pod();
    let target = Target { spec: &pod, version: Version::parse("v1.36.0").expect("a release"), base: None };
    let compose = |files: &BTreeMap<String, Vec<u8>>| {
        let (one, two) = files.iter().partition(|(name, _)| name.as_str() < "05");
        let sources = [one, two].map(|files: BTreeMap<&String, &Vec<u8>>| {
            let files = files.into_iter().map(|(name, content)| (name.clone(), content.clone()));
            Source { dir: "/config".to_owned(), files: files.collect() }
        });
        compose::compose(&sources, &target, &SchedulerOverrides::default(), &[])
    };
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let small: BTreeMap<String, Vec<u8>> = (0..10)
            .map(|number| {
                (format!("{number:02}.yaml"), serde_yaml::to_string(&fragment(&mut rng, number)).expect("YAML").into())
            })
            .collect();
        let mut large = small.clone();
        for text in large.values_mut() {
            text.extend("# much ado about nothing\n".repeat(1_000).bytes());
        }
        let (few, many) = (compose(&small).expect("composed"), compose(&large).expect("composed"));
        let (few, many) = (few.expect("something"), many.expect("something"));
        assert_eq!((few.files, few.origins), (many.files, many.origins), "seed {seed}");

        for name in ["02.yaml", "04.yaml", "09.yaml"] {
            large.get_mut(name).expect("a file").extend(b"a: [\n");
        }
        let files: Vec<_> = compose(&large).expect_err("refused").into_iter().map(|finding| finding.file).collect();
        let expected = ["/config/02.yaml", "/config/04.yaml"].map(|file| Some(file.to_owned()));
        assert_eq!(files, expected, "the first source that is wrong, file by file");
    }
}

#[test]
fn every_part_has_an_origin() {
    for seed in 0..ROUNDS {
        let composed = composed(&fragments(&mut Rng::new(seed)));
        let origins: BTreeMap<_, _> =
            composed.origins.iter().map(|origin| (origin.part.clone(), origin.from.clone())).collect();
        for (key, value) in config(&composed).as_object().expect("an object") {
            let count = value.as_array().map_or(1, Vec::len);
            let known = origins
                .keys()
                .filter(|part| {
                    *part == key || part.starts_with(&format!("{key}[")) || part.starts_with(&format!("{key}."))
                })
                .count();
            assert!(key == "kind" || known >= count, "seed {seed}: {key} has {known} origins for {count} parts");
        }
        assert!(origins.values().all(|from| !from.is_empty()));
    }
}

/// What the program says about a source of one file, as text and as JSON, on both streams.
fn said(name: &str, text: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("composing").join(name);
    let _ = std::fs::remove_dir_all(&source);
    std::fs::create_dir_all(&source).expect("a directory");
    std::fs::write(source.join("config.yaml"), text).expect("a file");
    let plan = |form: &str| {
        std::process::Command::new(env!("CARGO_BIN_EXE_schedpatch"))
            .env_clear()
            .args(["plan", "-o", form, "--host-root"])
            .arg(root.join("tests/golden/kubeadm-1.36/host"))
            .arg("--source")
            .arg(&source)
            .output()
            .expect("the program runs")
    };
    let outputs = ["text", "json"].map(plan);
    outputs.iter().flat_map(|output| [&output.stdout, &output.stderr]).map(|out| String::from_utf8_lossy(out)).collect()
}

#[test]
fn user_names_and_passwords_of_a_url_are_never_shown() {
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n";
    let url = "http://admin:hunter2@127.0.0.1:8889/x";
    let good = format!("{head}- urlPrefix: {url}\n  filterVerb: f\n  ignorable: true\n");
    let cases = [
        ("good", good.clone(), "url-credentials"),
        ("blocking", good.replace("  ignorable: true\n", ""), "blocking-extender"),
        ("slow", good.clone() + "  httpTimeout: 60s\n", "slow-extender"),
        ("weight", good.clone() + "  prioritizeVerb: p\n", "extender-weight"),
        ("conflict", format!("{good}{}", good.replace(head, "").replace("true", "true\n  weight: 2")), "conflict"),
        (
            "binders",
            format!(
                "{head}- urlPrefix: {url}\n  bindVerb: a\n  ignorable: true\n- urlPrefix: {url}\n  bindVerb: b\n  ignorable: true\n"
            ),
            "several-bind-verbs",
        ),
        ("port", good.replace("8889", "x"), "extender-url"),
        ("slash", good.replace("hunter2", "hunt/er2"), "url-credentials"),
        ("scheme", good.replace("http://", ""), "extender-url"),
        ("template", good.replace("127.0.0.1", "<host>"), "template"),
        ("unreadable", good.replace("  ignorable", "\tignorable"), "tab"),
    ];
    for (name, text, rule) in cases {
        let said = said(name, &text);
        assert!(said.contains(rule), "{name}: {said}");
        assert!(!said.contains("hunter2") && !said.contains("er2@") && !said.contains("admin"), "{name}: {said}");
    }
    assert!(said("good", &good).contains("http://***@127.0.0.1:8889/x"), "the diff shows the rest");
}

#[test]
fn the_composed_file_keeps_the_url_and_the_report_gets_scheme_host_and_port() {
    let url = "http://admin:hunter2@127.0.0.1:8889/x";
    let own = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "extenders": [{"urlPrefix": url, "filterVerb": "f", "ignorable": true}]});
    let composed = composed(&[("a.json".to_owned(), own)]);
    assert_eq!(config(&composed)["extenders"][0]["urlPrefix"], url);
    assert_eq!(composed.extenders, ["http://127.0.0.1:8889"]);
    let text = String::from_utf8(composed.files["config.yaml"].clone()).expect("text");
    assert_eq!(compose::extenders_of(&text), Some(composed.extenders));
}

/// An alternative of the target's own version that does not go together with another source.
#[test]
fn the_targets_own_version_is_preferred_only_where_all_sources_go_together() {
    let pod = {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden/compose-base-lifted/host/etc/kubernetes/manifests/kube-scheduler.yaml");
        static_pod::read(&std::fs::read_to_string(path).expect("readable")).expect("a scheduler")
    };
    let file = |version: &str, profile: &str| {
        format!("apiVersion: kubescheduler.config.k8s.io/{version}\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: {profile}\n").into_bytes()
    };
    let base = b"apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\nclientConnection:\n  kubeconfig: /etc/kubernetes/scheduler.conf\n";
    let version = |more: &[Source]| {
        let target = Target {
            spec: &pod,
            version: Version::parse("v1.27.0").expect("a release"),
            base: Some(("/etc/kubernetes/scheduler-config.yaml".to_owned(), Ok(base))),
        };
        let both = [("a.yaml".to_owned(), file("v1beta3", "a")), ("b.yaml".to_owned(), file("v1", "a"))];
        let both = Source { dir: "/both".to_owned(), files: both.into() };
        let sources: Vec<_> = std::iter::once(both).chain(more.iter().cloned()).collect();
        let composed = compose::compose(&sources, &target, &SchedulerOverrides::default(), &[])
            .expect("composed")
            .expect("something");
        config(&composed)["apiVersion"].as_str().expect("text").to_owned()
    };
    assert_eq!(version(&[]), "kubescheduler.config.k8s.io/v1beta3");
    let newer = Source { dir: "/newer".to_owned(), files: [("c.yaml".to_owned(), file("v1", "b"))].into() };
    assert_eq!(version(&[newer]), "kubescheduler.config.k8s.io/v1");
}
