//! Makes static-pod manifests in every style that people and tools write.

use super::rng::Rng;

/// A piece of a manifest, before it has a style.
enum Piece {
    /// Written as it is
    Text(String),
    /// A string that may be quoted
    Word(String),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
    /// A literal block
    Block(Vec<String>),
}

/// How this manifest is written.
struct Style {
    list_indents: Vec<usize>,
    map_indent: usize,
    comments: bool,
    flow: usize,
    line_break: &'static str,
}

/// A random manifest: always one that should be edited.
pub fn manifest(rng: &mut Rng) -> String {
    let style = Style {
        list_indents: match rng.below(6) {
            0 | 1 => vec![0],
            2 => vec![2],
            3 => vec![4],
            _ => vec![0, 2, 1],
        },
        map_indent: if rng.once_in(4) { 1 + rng.below(5) } else { 2 },
        comments: rng.once_in(3),
        flow: if rng.once_in(3) { 4 } else { 40 },
        line_break: if rng.once_in(8) { "\r\n" } else { "\n" },
    };
    let mut lines = Vec::new();
    if rng.once_in(6) {
        lines.push("---".to_owned());
    }
    write_map(&pod(rng), 0, &style, rng, &mut lines);
    if rng.once_in(8) {
        lines.push(String::new());
    }
    let mut text = lines.join(style.line_break);
    if !rng.once_in(5) {
        text.push_str(style.line_break);
    }
    text
}

fn text(value: &str) -> Piece {
    Piece::Text(value.to_owned())
}

fn word(value: &str) -> Piece {
    Piece::Word(value.to_owned())
}

fn map(entries: Vec<(&str, Piece)>) -> Piece {
    Piece::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn maybe(rng: &mut Rng, key: &'static str, entries: &mut Vec<(&'static str, Piece)>, value: Piece) {
    if rng.once_in(3) {
        entries.push((key, value));
    }
}

fn pod(rng: &mut Rng) -> Vec<(String, Piece)> {
    let mut entries =
        vec![("apiVersion", word("v1")), ("kind", word("Pod")), ("metadata", metadata(rng)), ("spec", spec(rng))];
    if rng.once_in(2) {
        entries.push(("status", text("{}")));
    }
    if rng.once_in(4) {
        rng.shuffle(&mut entries);
    }
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn metadata(rng: &mut Rng) -> Piece {
    let mut entries = vec![("name", word("kube-scheduler")), ("namespace", word("kube-system"))];
    maybe(rng, "creationTimestamp", &mut entries, text("null"));
    maybe(rng, "uid", &mut entries, word("3d8f1c0aab5e4f6c9d7e2b1a0f9e8d7c"));
    maybe(
        rng,
        "labels",
        &mut entries,
        map(vec![("component", word("kube-scheduler")), ("tier", word("control-plane"))]),
    );
    match rng.below(8) {
        0 => entries.push(("annotations", text("{}"))),
        1 => entries.push(("annotations", text(""))),
        2 => entries.push(("annotations", text(rng.pick(&["null", "~", "  null"])))),
        3 => entries.push(("annotations", map(vec![("kubernetes.io/config.source", word("file")), ("a", word("b"))]))),
        4 => {
            let block = Piece::Block(vec!["first".into(), String::new(), "  # no comment".into()]);
            entries.push(("annotations", map(vec![("note", block)])));
        }
        _ => {}
    }
    rng.shuffle(&mut entries);
    map(entries)
}

fn spec(rng: &mut Rng) -> Piece {
    let mut containers = vec![scheduler(rng)];
    if rng.once_in(5) {
        let sidecar = map(vec![
            ("name", word("log")),
            ("image", word("registry.example/log:1")),
            ("args", Piece::List(vec![word("--follow")])),
        ]);
        containers.insert(rng.below(2), sidecar);
    }
    let mut entries = vec![("containers", Piece::List(containers))];
    maybe(rng, "hostNetwork", &mut entries, text("true"));
    maybe(rng, "dnsPolicy", &mut entries, word("ClusterFirst"));
    maybe(rng, "priorityClassName", &mut entries, word("system-node-critical"));
    maybe(
        rng,
        "securityContext",
        &mut entries,
        map(vec![("seccompProfile", map(vec![("type", word("RuntimeDefault"))]))]),
    );
    let kubeconfig = map(vec![
        ("hostPath", map(vec![("path", word("/etc/kubernetes/scheduler.conf")), ("type", word("FileOrCreate"))])),
        ("name", word("kubeconfig")),
    ]);
    optional_list(rng, "volumes", kubeconfig, &mut entries);
    rng.shuffle(&mut entries);
    map(entries)
}

fn optional_list(rng: &mut Rng, key: &'static str, item: Piece, entries: &mut Vec<(&'static str, Piece)>) {
    match rng.below(8) {
        0 => {}
        1 => entries.push((key, text("[]"))),
        2 => entries.push((key, text(rng.pick(&["", "null", "~"])))),
        _ => entries.push((key, Piece::List(vec![item]))),
    }
}

fn scheduler(rng: &mut Rng) -> Piece {
    let (command, args) = words(rng);
    let mut entries = vec![("name", word("kube-scheduler")), ("image", word("registry.k8s.io/kube-scheduler:v1.31.2"))];
    entries.extend(command.map(|command| ("command", command)));
    entries.extend(args.map(|args| ("args", args)));
    maybe(rng, "imagePullPolicy", &mut entries, word("IfNotPresent"));
    maybe(rng, "terminationMessagePolicy", &mut entries, word("File"));
    let probe = map(vec![
        ("failureThreshold", text("8")),
        ("httpGet", map(vec![("host", word("127.0.0.1")), ("path", word("/livez")), ("port", text("10259"))])),
    ]);
    maybe(rng, "livenessProbe", &mut entries, probe);
    maybe(rng, "resources", &mut entries, map(vec![("requests", map(vec![("cpu", word("100m"))]))]));
    let mount = map(vec![
        ("mountPath", word("/etc/kubernetes/scheduler.conf")),
        ("name", word("kubeconfig")),
        ("readOnly", text("true")),
    ]);
    optional_list(rng, "volumeMounts", mount, &mut entries);
    rng.shuffle(&mut entries);
    map(entries)
}

/// `command` and `args` of a scheduler in one of the known forms.
fn words(rng: &mut Rng) -> (Option<Piece>, Option<Piece>) {
    let mut flags: Vec<&str> =
        vec!["--kubeconfig=/etc/kubernetes/scheduler.conf", "--leader-elect=true", "--bind-address=127.0.0.1", "-v=2"];
    rng.shuffle(&mut flags);
    flags.truncate(rng.below(5));
    match rng.below(8) {
        0 => flags.extend(["--secure-port", "4", "--v", "2"]),
        1 => flags.extend(["--v=4", "--v=2"]),
        _ => {}
    }
    match rng.below(10) {
        0 => flags.push("--config=/etc/kubernetes/own.yaml"),
        1 => flags.extend(["--config", "/etc/kubernetes/own.yaml"]),
        2 => flags.extend(["--config=/a.yaml", "--config=/b.yaml"]),
        _ => {}
    }
    let list = |words: &[&str], flags: &[&str]| Some(Piece::List(words.iter().chain(flags).map(|w| word(w)).collect()));
    match rng.below(8) {
        0 | 1 => (list(&["kube-scheduler"], &[]), list(&[], &flags).filter(|_| !flags.is_empty())),
        2 => {
            (list(&["/go-runner"], &[]), list(&["--log-file=/var/log/s.log", "/usr/local/bin/kube-scheduler"], &flags))
        }
        3 => (list(&["/usr/local/bin/kube-scheduler"], &flags), None),
        4 => (list(&["/hyperkube", "kube-scheduler"], &flags), None),
        _ => (list(&["kube-scheduler"], &flags), None),
    }
}

fn write_map(entries: &[(String, Piece)], indent: usize, style: &Style, rng: &mut Rng, lines: &mut Vec<String>) {
    for (key, value) in entries {
        noise(indent, style, rng, lines);
        let key = if rng.once_in(40) { format!("\"{key}\"") } else { key.clone() };
        let start = format!("{:indent$}{key}:", "");
        write_value(&start, value, indent, style, rng, lines);
    }
}

fn write_value(start: &str, value: &Piece, indent: usize, style: &Style, rng: &mut Rng, lines: &mut Vec<String>) {
    match value {
        Piece::Text(text) if text.is_empty() => lines.push(format!("{start}{}", trailing(style, rng))),
        Piece::Text(text) => lines.push(format!("{start} {text}{}", trailing(style, rng))),
        Piece::Word(word) => lines.push(format!("{start} {}{}", spelled(word, rng), trailing(style, rng))),
        Piece::Block(block) => {
            lines.push(format!("{start} {}", rng.pick(&["|", "|-", "|+"])));
            lines.extend(
                block
                    .iter()
                    .map(|line| if line.is_empty() { String::new() } else { format!("{:1$}{line}", "", indent + 2) }),
            );
        }
        Piece::List(_) | Piece::Map(_) if rng.once_in(style.flow) => {
            lines.push(format!("{start} {}{}", flow(value, rng), trailing(style, rng)));
        }
        Piece::Map(entries) => {
            lines.push(format!("{start}{}", trailing(style, rng)));
            write_map(entries, indent + style.map_indent, style, rng, lines);
        }
        Piece::List(items) => {
            lines.push(format!("{start}{}", trailing(style, rng)));
            let dash = indent + style.list_indents[rng.below(style.list_indents.len())];
            for item in items {
                noise(dash, style, rng, lines);
                write_item(item, dash, style, rng, lines);
            }
        }
    }
}

fn write_item(item: &Piece, dash: usize, style: &Style, rng: &mut Rng, lines: &mut Vec<String>) {
    let Piece::Map(entries) = item else {
        return write_value(&format!("{:dash$}-", ""), item, dash, style, rng, lines);
    };
    if rng.once_in(style.flow * 4) {
        return lines.push(format!("{:dash$}- {}", "", flow(item, rng)));
    }
    let mut own = Vec::new();
    let quiet = Style { comments: false, list_indents: style.list_indents.clone(), ..*style };
    write_map(entries, dash + 2, &quiet, rng, &mut own);
    if let Some(first) = own.first_mut() {
        first.replace_range(dash..=dash, "-");
    }
    lines.extend(own);
}

fn flow(value: &Piece, rng: &mut Rng) -> String {
    match value {
        Piece::Text(text) if text.is_empty() => "null".to_owned(),
        Piece::Text(text) => text.clone(),
        Piece::Word(word) => spelled(word, rng),
        Piece::Block(lines) => format!("{:?}", lines.join(" ")),
        Piece::List(items) => {
            let separator = rng.pick(&[", ", ",", " , ", ",\n                "]);
            format!("[{}]", items.iter().map(|item| flow(item, rng)).collect::<Vec<_>>().join(separator))
        }
        Piece::Map(entries) => {
            let entries: Vec<_> = entries.iter().map(|(key, value)| format!("{key}: {}", flow(value, rng))).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

fn spelled(word: &str, rng: &mut Rng) -> String {
    match rng.below(12) {
        0 => format!("\"{word}\""),
        1 => format!("'{word}'"),
        _ if word.starts_with('-') && word.len() < 3 => format!("\"{word}\""),
        _ => word.to_owned(),
    }
}

fn trailing(style: &Style, rng: &mut Rng) -> &'static str {
    if style.comments && rng.once_in(6) { rng.pick(&[" # why", "   ", " # - --config=/no", " #é→"]) } else { "" }
}

/// A comment or an empty line before the next one.
fn noise(indent: usize, style: &Style, rng: &mut Rng, lines: &mut Vec<String>) {
    if !style.comments || !rng.once_in(5) {
        return;
    }
    let column = [0, indent, indent + 2][rng.below(3)];
    lines.push(match rng.below(3) {
        0 => String::new(),
        1 => format!("{:column$}# - --config=/commented/out.yaml", ""),
        _ => format!("{:column$}# näher erklärt", ""),
    });
}
