//! What others do to a manifest that carries our edit: theirs stays, ours goes, or we refuse in words (laws 3, 4 and 7).

use std::path::Path;

use crate::support::laws::wanted;
use schedpatch::target::static_pod::{self, Draft};
use schedpatch::target::{HostMount, Rule};

const DIR: &str = "/var/lib/schedpatch/revisions/0123456789ab";

fn original() -> String {
    let path = "tests/golden/kubeadm-1.36/host/etc/kubernetes/manifests/kube-scheduler.yaml";
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("readable")
}

fn patched(text: &str) -> String {
    static_pod::patch(text, &wanted("0123456789ab", 1)).and_then(Draft::prove).expect("it can be edited")
}

fn unpatched(text: &str) -> String {
    static_pod::unpatch(text).and_then(Draft::prove).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"))
}

fn refused(text: &str) -> Rule {
    match static_pod::unpatch(text).and_then(Draft::prove) {
        Ok(text) => panic!("not refused, but:\n{text}"),
        Err(refusal) => {
            assert!(refusal.line.is_some(), "{refusal:?}");
            refusal.rule
        }
    }
}

/// Replaces once, and makes sure that there was something to replace.
fn swap(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from:?} is not in\n{text}");
    text.replacen(from, to, 1)
}

#[test]
fn lines_of_others_stay_where_they_were_put() {
    let (before, after) = (original(), patched(&original()));
    let config = format!("    - --config={DIR}/config.yaml\n");
    for (from, to) in [
        ("    - --leader-elect=true\n", "    - --leader-elect=true\n    - --v=4 # theirs\n"),
        ("  hostNetwork: true\n", "  hostNetwork: true\n  hostname: theirs\n"),
        ("  volumes:\n", "  volumes:\n  - emptyDir: {}\n    name: theirs\n"),
        ("  name: kube-scheduler\n  namespace", "  # theirs\n  name: kube-scheduler\n  namespace"),
        (":v1.36.1\n", ":v1.36.7\n"),
    ] {
        assert_eq!(unpatched(&swap(&after, from, to)), swap(&before, from, to), "{to}");
    }
    let appended = swap(&after, &config, &format!("{config}    - --v=4\n"));
    assert_eq!(
        unpatched(&appended),
        swap(&before, "    - --leader-elect=true\n", "    - --leader-elect=true\n    - --v=4\n")
    );
}

#[test]
fn comments_of_others_on_our_lines_stay() {
    let after = patched(&original());
    let config = format!("    - --config={DIR}/config.yaml");
    for (from, to) in [
        (config.as_str(), format!("{config} # ticket 12")),
        ("  annotations:\n", "  annotations: # ticket 12\n".to_owned()),
        ("      name: schedpatch-config\n", "      # ticket 12\n      name: schedpatch-config\n".to_owned()),
    ] {
        let text = unpatched(&swap(&after, from, &to));
        assert!(text.contains("# ticket 12"), "{text}");
        let without: String = text.split_inclusive('\n').filter(|line| !line.contains("ticket 12")).collect();
        assert_eq!(without, original());
    }
}

#[test]
fn what_others_put_into_our_annotations_stays() {
    let after =
        swap(&patched(&original()), "    schedpatch.io/revision", "    name: theirs\n    schedpatch.io/revision");
    let text = unpatched(&after);
    assert!(text.contains("  annotations:\n    name: theirs\n") && !text.contains("schedpatch"), "{text}");
}

#[test]
fn other_line_ends_and_a_missing_last_one_are_no_obstacle() {
    let (before, after) = (original(), patched(&original()));
    assert_eq!(unpatched(&after.replace('\n', "\r\n")), before.replace('\n', "\r\n"));
    assert_eq!(unpatched(after.trim_end()), before.trim_end());
}

#[test]
fn a_flow_mapping_loses_only_ours() {
    let before = swap(
        &original(),
        "  name: kube-scheduler\n  namespace",
        "  annotations: {}\n  name: kube-scheduler\n  namespace",
    );
    let after = patched(&before);
    let line = after.lines().find(|line| line.starts_with("  annotations: {")).expect("flow").to_owned();
    let open = line.strip_suffix('}').expect("a flow mapping ends with a brace");
    let theirs = swap(&after, &line, &format!("{open}, theirs: \"1\"}}"));
    let text = unpatched(&theirs);
    assert!(text.contains("theirs") && !text.contains("schedpatch"), "{text}");
}

#[test]
fn a_value_that_an_upgrade_wrote_over_ours_stays() {
    let before = original();
    let mut wish = wanted("0123456789ab", 1);
    wish.image = Some("registry.example/kube-scheduler:v1.36.1-own".to_owned());
    let after = static_pod::patch(&before, &wish).and_then(Draft::prove).expect("it can be edited");
    assert_eq!(unpatched(&after), before);
    let upgraded = swap(
        &after,
        "image: registry.example/kube-scheduler:v1.36.1-own",
        "image: registry.k8s.io/kube-scheduler:v1.37.0",
    );
    assert!(unpatched(&upgraded).contains("image: registry.k8s.io/kube-scheduler:v1.37.0"), "no old image comes back");
}

#[test]
fn a_second_config_of_others_stays_and_ours_goes() {
    let config = format!("    - --config={DIR}/config.yaml\n");
    let after = swap(&patched(&original()), &config, &format!("{config}    - --config=/theirs.yaml\n"));
    let text = unpatched(&after);
    assert!(text.contains("--config=/theirs.yaml") && !text.contains("schedpatch"), "{text}");
}

#[test]
fn a_trace_of_ours_that_would_stay_behind_is_refused() {
    let after = patched(&original());
    let config = format!("    - --config={DIR}/config.yaml\n");
    let two_words = swap(&after, &config, &format!("    - --config\n    - {DIR}/config.yaml\n"));
    let another_file = swap(&after, "config.yaml\n", "other.yaml\n");
    let sidecar = "  - name: sidecar\n    image: x:1\n    volumeMounts:\n    - mountPath: /c\n      name: schedpatch-config\n  hostNetwork";
    let mounted_elsewhere = swap(&after, "  hostNetwork", sidecar);
    let marks: String = after.split_inclusive('\n').filter(|line| !line.contains("schedpatch.io/")).collect();
    let no_marks = swap(&marks, "  annotations:\n", "");
    for text in [two_words, another_file, mounted_elsewhere, no_marks] {
        assert_eq!(refused(&text), Rule::UndoRecord, "{text}");
    }
}

#[test]
fn nulls_that_were_spelled_out_come_back() {
    for null in ["", " ~", " null"] {
        let before = swap(&original(), "  hostNetwork: true\n", &format!("  dnsPolicy:{null}\n  hostNetwork: true\n"));
        let before =
            swap(&before, "    imagePullPolicy", &format!("    terminationMessagePolicy:{null}\n    imagePullPolicy"));
        let mut wish = wanted("0123456789ab", 1);
        wish.dns_policy = Some("ClusterFirstWithHostNet".to_owned());
        let after = static_pod::patch(&before, &wish).and_then(Draft::prove).expect("it can be edited");
        assert!(
            after.contains("dnsPolicy: ClusterFirstWithHostNet") && after.contains("Policy: FallbackToLogsOnError")
        );
        assert_eq!(unpatched(&after), before);
    }
}

#[test]
fn flags_and_mounts_that_were_wished_come_and_go() {
    let before = original();
    let mut wish = wanted("0123456789ab", 1);
    wish.args = vec![("v".to_owned(), "4".to_owned()), ("leader-elect".to_owned(), "false".to_owned())];
    wish.mounts = vec![
        HostMount { path: "/etc/tls".to_owned(), is_dir: true },
        HostMount { path: "/etc/one.crt".to_owned(), is_dir: false },
    ];
    let after = static_pod::patch(&before, &wish).and_then(Draft::prove).expect("it can be edited");
    for line in ["    - --v=4\n", "    - --leader-elect=false\n", "    - mountPath: /etc/tls\n", "      type: File\n"] {
        assert!(after.contains(line), "{line} is missing in\n{after}");
    }
    assert_eq!(unpatched(&after), before);
    let fewer = static_pod::patch(&after, &wanted("ba9876543210", 2)).and_then(Draft::prove).expect("it can be edited");
    assert_eq!(fewer, static_pod::patch(&before, &wanted("ba9876543210", 2)).and_then(Draft::prove).expect("edited"));
}

#[test]
fn a_wish_for_a_flag_that_stands_twice_or_in_two_words_is_undone_at_its_own_place() {
    let flags = "    - --leader-elect=true\n";
    for own in [
        "    - --burst\n    - \"4\"\n    - --v\n    - \"2\"\n",
        "    - --v=4\n    - --v=2\n",
        "    - --v=2\n    - --v=4\n",
        "    - --leader-elect\n",
        "    - -v\n    - \"2\"\n",
        "    - -v=2\n",
    ] {
        let before = swap(&original(), flags, own);
        let mut wish = wanted("0123456789ab", 1);
        wish.args = vec![("leader-elect".to_owned(), "false".to_owned()), ("v".to_owned(), "4".to_owned())];
        let after = static_pod::patch(&before, &wish).and_then(Draft::prove).expect("it can be edited");
        assert_eq!(unpatched(&after), before, "{own}");
    }
}

#[test]
fn what_others_added_to_our_items_and_comments_that_cannot_be_kept_are_refused() {
    let after = patched(&original());
    let mount = "      name: schedpatch-config\n";
    let grown = swap(&after, mount, &format!("{mount}      mountPropagation: HostToContainer\n"));
    assert_eq!(refused(&grown), Rule::UndoRecord);
    let renamed = after.replace("name: schedpatch-config\n", "name: theirs\n");
    assert_eq!(refused(&renamed), Rule::UndoRecord);
    let text = original();
    let start = text.find("  - command:\n").expect("command comes first");
    let end = text[start..].find("    image:").expect("image") + start;
    let flow = format!("{}  - command: [kube-scheduler, \"--kubeconfig=/k\"]\n{}", &text[..start], &text[end..]);
    let commented = patched(&flow).replacen(", \"--config=", ", # theirs\n      \"--config=", 1);
    assert_eq!(refused(&commented), Rule::Shape);
}
