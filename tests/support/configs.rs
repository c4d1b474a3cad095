//! Makes scheduler configurations, sound ones and broken ones.

use serde_json::{Map, Value, json};

use super::rng::Rng;

/// A random configuration of apiVersion v1. About half of them have one thing wrong.
pub fn config(rng: &mut Rng, minor: u32) -> Value {
    let mut config = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"});
    let fields = config.as_object_mut().expect("an object");
    some(rng, fields, "parallelism", json!(8));
    some(rng, fields, "percentageOfNodesToScore", json!(50));
    some(rng, fields, "podInitialBackoffSeconds", json!(2));
    some(rng, fields, "podMaxBackoffSeconds", json!(20));
    some(rng, fields, "delayCacheUntilActive", json!(true));
    let extenders: Vec<_> = (0..rng.below(3)).map(|number| extender(rng, number)).collect();
    fields.insert("extenders".to_owned(), extenders.into());
    if rng.once_in(2) {
        let profiles: Vec<_> = (0..=rng.below(2)).map(|number| profile(rng, number)).collect();
        fields.insert("profiles".to_owned(), profiles.into());
    }
    if rng.once_in(2) {
        break_it(rng, fields, minor);
    }
    config
}

fn some(rng: &mut Rng, fields: &mut Map<String, Value>, name: &str, value: Value) {
    if rng.once_in(3) {
        fields.insert(name.to_owned(), value);
    }
}

fn extender(rng: &mut Rng, number: usize) -> Value {
    let mut extender =
        json!({"urlPrefix": format!("http://127.0.0.1:{}", 9000 + number), "filterVerb": "filter", "ignorable": true});
    let fields = extender.as_object_mut().expect("an object");
    if rng.once_in(2) {
        fields.insert("prioritizeVerb".to_owned(), json!("prioritize"));
        fields.insert("weight".to_owned(), json!(1 + rng.below(5)));
    }
    let timeout = rng.pick(&["1s", "500ms", "1m30s", "0s", "1.5h"]);
    some(rng, fields, "httpTimeout", json!(timeout));
    some(rng, fields, "nodeCacheCapable", json!(true));
    some(rng, fields, "enableHTTPS", json!(false));
    some(rng, fields, "preemptVerb", json!("preempt"));
    some(rng, fields, "managedResources", json!([{"name": format!("example.com/r{number}")}]));
    some(rng, fields, "tlsConfig", json!({"insecure": true}));
    extender
}

fn profile(rng: &mut Rng, number: usize) -> Value {
    let mut profile = json!({"schedulerName": if number == 0 { "default-scheduler" } else { "second" }});
    let fields = profile.as_object_mut().expect("an object");
    some(rng, fields, "percentageOfNodesToScore", json!(30));
    if rng.once_in(2) {
        let score =
            json!({"disabled": [{"name": "ImageLocality"}], "enabled": [{"name": "NodeResourcesFit", "weight": 3}]});
        fields.insert("plugins".to_owned(), json!({"score": score}));
    }
    some(rng, fields, "pluginConfig", json!([{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 5}}]));
    profile
}

#[expect(clippy::too_many_lines, reason = "a list")]
/// One thing that a scheduler refuses, or that only looks as if it would.
fn break_it(rng: &mut Rng, fields: &mut Map<String, Value>, minor: u32) {
    let mut set = |name: &str, value: Value| {
        fields.insert(name.to_owned(), value);
    };
    let extender = |more: Value| {
        let mut extender = json!({"urlPrefix": "http://127.0.0.1:9100", "filterVerb": "f", "ignorable": true});
        let more = more.as_object().cloned().unwrap_or_default();
        extender.as_object_mut().expect("an object").extend(more);
        extender
    };
    let plugins = |point: &str, set: Value| json!([{"schedulerName": "default-scheduler", "plugins": {point: set}}]);
    match rng.below(40) {
        0 => set("unknownField", json!(1)),
        1 => set("metadata", json!({"name": "x"})),
        2 => set("parallelism", json!("8")),
        3 => set("parallelism", json!(0)),
        4 => set("parallelism", json!(2.5)),
        5 => set("percentageOfNodesToScore", json!(101)),
        6 => set("percentageOfNodesToScore", json!(-1)),
        7 => set("podInitialBackoffSeconds", json!(0)),
        8 => set("podInitialBackoffSeconds", json!(30)),
        9 => set("podMaxBackoffSeconds", json!(0)),
        10 => set("extenders", json!([extender(json!({"prioritizeVerb": "p"}))])),
        11 => set("extenders", json!([extender(json!({"prioritizeVerb": "p", "weight": -1}))])),
        12 => set(
            "extenders",
            json!([extender(json!({"bindVerb": "b"})), extender(json!({"bindVerb": "b", "filterVerb": "g"}))]),
        ),
        13 => set("extenders", json!([extender(json!({"managedResources": [{"name": "cpu"}]}))])),
        14 => set("extenders", json!([extender(json!({"managedResources": [{"name": "a.kubernetes.io/x"}]}))])),
        15 => {
            set(
                "extenders",
                json!([extender(json!({"managedResources": [{"name": "e.com/x"}, {"name": "e.com/x"}]}))]),
            );
        }
        16 => set("extenders", json!([extender(json!({"enableHttps": true}))])),
        17 => set("extenders", json!([extender(json!({"httpTimeout": 5}))])),
        18 => set("extenders", json!([extender(json!({"httpTimeout": "5"}))])),
        19 => set("extenders", json!([extender(json!({"httpTimeout": null}))])),
        20 => set("extenders", json!([extender(json!({"ignorable": "true"}))])),
        21 => set("extenders", json!([extender(json!({"tlsConfig": {"insecure": true, "caData": "bm8="}}))])),
        22 => set("extenders", json!({"urlPrefix": "x"})),
        23 => set("extenders", json!([extender(json!({"weight": null, "nodeCacheCapable": null}))])),
        24 => set("profiles", json!([{"schedulerName": "a"}, {"schedulerName": "a"}])),
        25 => set("profiles", json!([{"schedulerName": "a"}, {}])),
        26 => set("profiles", json!([{"schedulerName": ""}])),
        27 => set("profiles", plugins("score", json!({"enabled": [{"name": "NoSuchPlugin"}]}))),
        28 => set("profiles", plugins("score", json!({"disabled": [{"name": "NoSuchPlugin"}]}))),
        29 => set(
            "profiles",
            plugins("score", json!({"enabled": [{"name": "ImageLocality"}, {"name": "ImageLocality"}]})),
        ),
        30 => set("profiles", plugins("multiPoint", json!({"disabled": [{"name": "*"}]}))),
        31 => set("profiles", plugins("queueSort", json!({"disabled": [{"name": "PrioritySort"}]}))),
        32 => set("profiles", plugins("bind", json!({"disabled": [{"name": "*"}]}))),
        33 => set("profiles", plugins("filter", json!({"enabled": [{"name": "EBSLimits"}]}))),
        34 => set("profiles", plugins("noSuchPoint", json!({"enabled": []}))),
        35 => set(
            "profiles",
            json!([{"schedulerName": "a", "pluginConfig": [{"name": "X", "args": 1}, {"name": "X", "args": 1}]}]),
        ),
        36 => set("profiles", json!([{"pluginConfig": [{"name": "NodeAffinity", "args": "text"}]}])),
        37 => set("profiles", plugins("score", json!({"enabled": [{"name": "ImageLocality", "weight": -5}]}))),
        38 => {
            set("profiles", plugins(if minor < 36 { "placementScore" } else { "preEnqueue" }, json!({"enabled": []})));
        }
        _ => set("extenders", json!([extender(json!({"urlPrefix": ""})), null])),
    }
}
