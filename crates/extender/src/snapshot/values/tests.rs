//! Series become values.

use super::*;
use crate::config::parse;

fn vector(series: &[(&str, &str)]) -> String {
    let series = series.iter().map(|(labels, value)| format!(r#"{{"metric":{{{labels}}},"value":[1,"{value}"]}}"#));
    let series: Vec<_> = series.collect();
    format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{}]}}}}"#, series.join(","))
}

fn values(policy: &str, bodies: &[String]) -> (Values, Arc<Index>) {
    let text = format!("prometheus: {{url: 'http://p'}}\npolicies:\n- {{name: a, query: a, {policy}}}\n");
    let config = parse("test.yaml".as_ref(), &text).expect("it is valid");
    let mut index = Arc::default();
    let bodies: Vec<&[u8]> = bodies.iter().map(String::as_bytes).collect();
    let read = Values::read(&config.policies[0], &bodies, &Arc::default(), &mut index, Instant::now());
    (read.expect("they are answers"), index)
}

#[test]
fn of_duplicates_the_worse_counts_and_what_is_no_number_is_missing() {
    let body = vector(&[
        (r#""node":"a""#, "1"),
        (r#""node":"a""#, "3"),
        (r#""node":"b""#, "NaN"),
        (r#""node":"c""#, "+Inf"),
        (r#""other":"d""#, "1"),
        (r#""node":"e""#, "-1e3"),
    ]);
    let (read, index) = values("prefer: lower", std::slice::from_ref(&body));
    let of = |name: &str| read.plain.get(usize::try_from(index.position(name)).expect("small")).copied();
    assert_eq!((of("a"), of("b"), of("c"), of("e")), (Some(3.0), None, None, Some(-1000.0)));
    assert_eq!(read.report, Report { series: 6, unmapped: 1, duplicates: 1, not_numbers: 2, sample: Some("a".into()) });
    assert!((values("prefer: higher", &[body]).0.plain[0] - 1.0).abs() < 1e-9);
    let huge = vector(&[(r#""node":"a","app":"x""#, "1.7e308"), (r#""node":"a","app":"y""#, "1.7e308")]);
    let (read, _) = values("prefer: lower, match: {app: labels.app}", &[huge]);
    assert!(read.plain.iter().all(|value| !value.is_infinite()), "a mean is a number or missing: {:?}", read.plain);
}

#[test]
fn workloads_have_their_own_values_and_new_ones_the_plain_value_of_the_node() {
    let query = vector(&[
        (r#""node":"a","app":"x""#, "1"),
        (r#""node":"a","app":"y""#, "5"),
        (r#""node":"b","app":"x""#, "2"),
        (r#""node":"b""#, "9"),
        (r#""node":"c","app":"y""#, "7"),
    ]);
    let (read, index) = values("prefer: lower, match: {app: labels.app}", std::slice::from_ref(&query));
    let column = |key: Option<&str>| -> Vec<f64> {
        let column = read.column(key);
        ["a", "b", "c"].map(|name| column[usize::try_from(index.position(name)).expect("small")]).to_vec()
    };
    assert_eq!(column(Some("x")), [1.0, 2.0, 7.0], "c has no history of x");
    assert_eq!(column(Some("new")), [3.0, 9.0, 7.0], "a has no plain series: the mean of its workloads");
    assert_eq!(column(None), [3.0, 9.0, 7.0]);
    let plain = vector(&[(r#""node":"a""#, "100")]);
    let (read, index) = values("prefer: lower, match: {app: labels.app}, plainQuery: b", &[query, plain]);
    let of_new = read.column(Some("new"))[usize::try_from(index.position("a")).expect("small")];
    assert!((of_new - 100.0).abs() < 1e-9);
    assert_eq!(read.workloads(), 2);
}

#[tokio::test(start_paused = true)]
async fn values_are_stale_when_they_are_older_than_the_policy_allows() {
    let (read, _) = values("prefer: lower, staleAfter: 30s", &[vector(&[(r#""node":"a""#, "1")])]);
    let text = "prometheus: {url: 'http://p'}\npolicies:\n- {name: a, query: a, prefer: lower, staleAfter: 30s}\n";
    let policy = &parse("test.yaml".as_ref(), text).expect("valid").policies[0];
    assert!(!read.is_stale(policy, Instant::now() + Duration::from_secs(30)));
    assert!(read.is_stale(policy, Instant::now() + Duration::from_secs(31)));
    assert!(Values::default().is_stale(policy, Instant::now()));
}

#[test]
fn values_stay_within_what_is_left_of_the_memory_for_all_policies() {
    let text =
        "prometheus: {url: 'http://p'}\npolicies:\n- {name: a, query: a, prefer: lower, match: {app: labels.app}}\n";
    let config = parse("test.yaml".as_ref(), text).expect("it is valid");
    let labels: Vec<String> = (0..2000).map(|number| format!(r#""node":"n{number}","app":"a{number}""#)).collect();
    let series: Vec<(&str, &str)> = labels.iter().map(|labels| (labels.as_str(), "1")).collect();
    let body = vector(&series);
    let read = |most: usize| {
        let (mut reader, mut index) = (Reader::new(&config.policies[0], &Arc::default()), Arc::default());
        reader.read(body.as_bytes(), &mut index, most).map(|()| (reader.bytes(), index.bytes()))
    };
    let (values, names) = read(MAX_BYTES).expect("there is room");
    assert!(values > 2000 * 16 && names > 2000 * 32, "{values} and {names} bytes");
    assert!(read(values + names).is_ok());
    let error = read(values / 2).expect_err("too little").to_string();
    assert!(error.contains("48 MiB") && error.contains("aggregate"), "{error}");
    assert!(read(values + 1000).is_err(), "names of nodes count too");
}
