//! What stays of a snapshot when files and nodes change.

use super::*;
use crate::config::parse;
use crate::mapping::NodeBook;

#[test]
fn names_of_gone_nodes_are_dropped_and_the_others_keep_their_values() {
    let text =
        "prometheus: {url: 'http://p'}\npolicies:\n- {name: a, query: q, prefer: lower, match: {app: labels.app}}\n";
    let config = Arc::new(parse("test.yaml".as_ref(), text).expect("valid"));
    let body = |from: usize, to: usize| {
        let series = (from..to).map(|n| format!(r#"{{"metric":{{"node":"n{n}","app":"x"}},"value":[1,"{n}"]}}"#));
        let series = series.collect::<Vec<_>>().join(",");
        format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}"#)
    };
    let mut snapshot = Snapshot::empty(config);
    for (from, to) in [(0, 4000), (3990, 4000)] {
        let body = body(from, to);
        let (policy, book) = (&snapshot.config.policies[0], Arc::<NodeBook>::default());
        let values = Values::read(policy, &[body.as_bytes()], &book, &mut snapshot.index, Instant::now());
        snapshot.values = vec![Arc::new(values.expect("an answer"))];
    }
    assert_eq!(snapshot.index.names().len(), 4000);
    let compacted = compact(snapshot);
    assert_eq!(compacted.index.names().len(), 10);
    let choice = crate::select::Choice { mask: 1, keys: vec![Some("x".to_owned())], ..Default::default() };
    let columns = compacted.columns(&choice, Instant::now());
    for number in 3990..4000 {
        let position = compacted.index.position(&format!("n{number}"));
        assert!((columns[0].value(position) - f64::from(number)).abs() < 1e-9);
    }
}

#[test]
fn a_changed_weight_keeps_the_values_and_a_changed_query_does_not() {
    let config = |weight: u8, query: &str| {
        let text = format!(
            "prometheus: {{url: 'http://p'}}\npolicies:\n- {{name: a, query: {query}, prefer: lower, weight: {weight}}}\n"
        );
        Arc::new(parse("test.yaml".as_ref(), &text).expect("valid"))
    };
    let mut old = Snapshot::empty(config(1, "q"));
    let mut values = Values::default();
    values.plain.push(1.0);
    old.values = vec![Arc::new(values)];
    assert_eq!(carry_over(&old, &config(2, "q"))[0].plain, [1.0]);
    assert!(carry_over(&old, &config(1, "other"))[0].plain.is_empty());
}

#[test]
fn of_policies_that_ask_the_same_each_keeps_its_own_values() {
    let text = "prometheus: {url: 'http://p'}\npolicies:\n- {name: a, query: q, prefer: lower}\n- {name: b, query: q, prefer: lower}\n";
    let config = Arc::new(parse("test.yaml".as_ref(), text).expect("valid"));
    let mut old = Snapshot::empty(Arc::clone(&config));
    for (values, value) in old.values.iter_mut().zip([1.0, 2.0]) {
        Arc::make_mut(values).plain.push(value);
    }
    let carried = carry_over(&old, &config);
    assert_eq!((&carried[0].plain[..], &carried[1].plain[..]), (&[1.0][..], &[2.0][..]));
}
