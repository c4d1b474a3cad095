//! Files that are right, files that are wrong, and the schema.

use std::collections::BTreeSet;

use super::*;

const HEAD: &str = "prometheus: {url: 'http://p:9090'}\npolicies:\n- name: cpu\n  query: q\n  prefer: lower\n";

fn wrong(text: &str) -> String {
    parse("extender.yaml".as_ref(), text).expect_err("it is wrong").to_string()
}

#[test]
fn a_small_file_gets_its_defaults() {
    let config = parse("extender.yaml".as_ref(), HEAD).expect("it is right");
    let policy = &config.policies[0];
    assert_eq!((policy.range, policy.weight, policy.node.label.as_str()), (Range::MinMax, 1.0, "node"));
    assert_eq!(policy.stale_after, Duration::from_mins(2));
    assert!(config.herd.enabled && config.recovery.enabled && !config.needs_nodes() && config.needs_pods());
    assert_eq!(config.pods.exempt_namespaces, ["kube-system"]);
}

/// Errors whose line serde chooses.
const FROM_SERDE: [&str; 8] =
    ["YAML", "policies", "weigth", "minmax", "2", "a duration as 500ms", "labels.KEY", "pods"];

#[test]
fn what_is_wrong_is_named_with_file_line_and_way_out() {
    let url = "prometheus: {url: 'http://p'}\n";
    for (text, line, words) in [
        ("", 1_usize, "empty"),
        ("a: [", 1, "YAML"),
        (url, 1, "policies"),
        ("prometheus: {url: 'http://p'}\npolicies: []\n", 2, "at least one"),
        (&format!("{HEAD}  weigth: 1\n"), 6, "weigth"),
        (&format!("{HEAD}  weight: -1\n"), 6, "weight must be 0 or more"),
        (&format!("{HEAD}  weight: 0\n"), 6, "does nothing"),
        (&format!("{HEAD}  weight: 1e308\n"), 6, "at most 1000000"),
        (&format!("{HEAD}  weight: .nan\n"), 6, "at most 1000000"),
        (&format!("{HEAD}  avoidAbove: .inf\n"), 6, "avoidAbove must be a number"),
        (&format!("{HEAD}  range: {{from: 2, to: 1}}\n"), 6, "from must be smaller"),
        (&format!("{HEAD}  range: rank\n"), 6, "minmax"),
        (&format!("{HEAD}  staleAfter: 2\n"), 6, "2"),
        (&format!("{HEAD}  staleAfter: 2 minutes\n"), 6, "a duration as 500ms"),
        (&format!("{HEAD}  match: {{app: spec.x}}\n"), 6, "labels.KEY"),
        (&format!("{HEAD}  node: {{label: zone, is: nodeLabel}}\n"), 6, "go together"),
        (&format!("{HEAD}  plainQuery: x\n"), 6, "match"),
        (&format!("{HEAD}  match: {{node: labels.app}}\n"), 6, "names the node"),
        (&HEAD.replace("9090'", "9090', interval: 999ms"), 1, "interval must be 1s"),
        (&format!("{HEAD}  avoidAbove: 1\n  avoidBelow: 2\n"), 6, "every value would be refused"),
        (&format!("{HEAD}- name: cpu\n  query: q\n  prefer: lower\n"), 6, "two policies are called cpu"),
        (&format!("{HEAD}- name: a b\n  query: q\n  prefer: lower\n"), 6, "is no name"),
        (&format!("{HEAD}minimumSpread: 0\n"), 6, "above 0"),
        (&format!("{HEAD}herd: {{perPod: 2}}\n"), 6, "perPod"),
        (&format!("{HEAD}pods:\n  defaultPolicies: [cpu, gpu]\n"), 7, "there is no policy gpu"),
        (&format!("{HEAD}pods: {{}}\npods: {{}}\n"), 7, "pods"),
        (&HEAD.replace("http://p:9090", "https://p"), 1, "caFile"),
        (&HEAD.replace("http://p:9090", "http://u:secret@p"), 1, "basicAuthFile"),
        (&HEAD.replace("9090'", "9090', caFile: /x"), 1, "https://"),
        (&HEAD.replace("http://p:9090'", "https://p', caFile: /x, clientKeyFile: /y"), 1, "go together"),
    ] {
        let said = wrong(text);
        let (place, why) = said.split_once(": ").expect("file, line and reason");
        assert!(place.starts_with("extender.yaml:") && why.contains(words), "{said}\nfor\n{text}");
        let own: usize = place.rsplit(':').next().and_then(|line| line.parse().ok()).expect("a line");
        // serde names the beginning of the entry where a value has the wrong form, or a word is unknown
        let own_line = if FROM_SERDE.contains(&words) { line.saturating_sub(3)..=line } else { line..=line };
        assert!(own_line.contains(&own), "{said}, not line {line}\nfor\n{text}");
        assert!(!said.contains("secret"), "{said}");
    }
}

/// The fields that serde expects, in its own words.
fn fields(text: &str) -> BTreeSet<String> {
    let said = wrong(text);
    assert!(said.contains("unknown field"), "{said}");
    said.split('`').skip(3).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_schema_has_the_bounds_of_the_code() {
    let schema: serde_json::Value = serde_json::from_str(SCHEMA).expect("it is JSON");
    let policy = &schema["definitions"]["policy"]["properties"];
    let most = policy["weight"]["maximum"].as_f64().expect("a number");
    assert!(parse("extender.yaml".as_ref(), &format!("{HEAD}  weight: {most}\n")).is_ok());
    assert!(wrong(&format!("{HEAD}  weight: {}\n", most + 1.0)).contains("weight must be"));
    let forbidden = policy["name"]["not"]["const"].as_str().expect("a word");
    assert!(wrong(&HEAD.replace("cpu", forbidden)).contains("is no name"));
    let most = schema["properties"]["policies"]["maxItems"].as_u64().expect("a number");
    let policies = |number| -> Vec<String> {
        (0..number).map(|n| format!("- {{name: p{n}, query: q, prefer: lower}}\n")).collect()
    };
    let many = |number| policies(number).concat();
    let head = "prometheus: {url: 'http://p'}\npolicies:\n";
    assert!(parse("extender.yaml".as_ref(), &format!("{head}{}", many(most))).is_ok());
    assert!(wrong(&format!("{head}{}", many(most + 1))).contains("too many"));
}

#[test]
fn doubtful_values_are_warned_of() {
    let config = |more: &str| parse("extender.yaml".as_ref(), &format!("{HEAD}{more}")).expect("it is right");
    assert!(warnings(&config("")).is_empty());
    let said = warnings(&config("  staleAfter: 20s\n"));
    assert!(said.len() == 1 && said[0].contains("cpu: staleAfter (20s) is less than two intervals (15s)"), "{said:?}");
    let said = warnings(&config("pods: {exemptNamespaces: [monitoring]}\n"));
    assert!(said.len() == 1 && said[0].contains("has no kube-system"), "{said:?}");
    let said = warnings(&config("  avoidAbove: 1\n  whenAllExceed: reject\nrecovery: {enabled: false}\n"));
    assert!(said.len() == 1 && said[0].contains("whenAllExceed: reject without recovery"), "{said:?}");
}

#[test]
fn the_schema_has_exactly_the_fields_of_the_code() {
    let schema: serde_json::Value = serde_json::from_str(SCHEMA).expect("it is JSON");
    let keys = |place: &serde_json::Value| -> BTreeSet<String> {
        assert_eq!(place["additionalProperties"], false, "unknown fields are refused");
        place["properties"].as_object().expect("an object").keys().cloned().collect()
    };
    let top = &schema["properties"];
    let policy = &schema["definitions"]["policy"];
    for (text, place) in [
        (format!("{HEAD}zz: 1\n"), &schema),
        (HEAD.replace("9090'", "9090', zz: 1"), &top["prometheus"]),
        (format!("{HEAD}  zz: 1\n"), policy),
        (format!("{HEAD}  node: {{zz: 1}}\n"), &policy["properties"]["node"]),
        (format!("{HEAD}pods: {{zz: 1}}\n"), &top["pods"]),
        (format!("{HEAD}herd: {{zz: 1, yy: 2}}\n"), &top["herd"]),
    ] {
        assert_eq!(fields(&text), keys(place), "{text}");
    }
    for (place, word) in [("prefer", "lower"), ("whenAllExceed", "reject")] {
        let words = policy["properties"][place]["enum"].as_array().expect("a list");
        assert!(words.iter().any(|own| own == word));
    }
}
