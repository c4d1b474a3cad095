//! The digest that a cluster wants, from its ConfigMaps.

use super::cluster_objects::{cluster, judged, root};
use schedpatch::observe;
use schedpatch::plan::{self, Direction};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A directory as the kubelet shows a ConfigMap.
fn mount(name: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fleet").join(name);
    let _ = fs::remove_dir_all(&dir);
    let real = dir.join("..2026_11_16_18_31_08.1");
    fs::create_dir_all(&real).expect("a directory");
    symlink(real.file_name().expect("a name"), dir.join("..data")).expect("a link");
    for (name, content) in files {
        fs::write(real.join(name), content).expect("a file");
        symlink(Path::new("..data").join(name), dir.join(name)).expect("a link");
    }
    dir
}

/// The digest that an agent on a host computes.
fn planned(dirs: &[PathBuf]) -> String {
    let mut flags = vec!["--host-root".to_owned(), root().join("examples/host").display().to_string()];
    flags.extend(dirs.iter().flat_map(|dir| ["--source".to_owned(), dir.display().to_string()]));
    let settings = schedpatch::cli::plan_settings(&flags).expect("flags");
    let snapshot = observe::take_snapshot(&settings).expect("a host");
    plan::make(&snapshot, &settings, Direction::Apply).digest.expect("a digest").to_string()
}

/// The digest that the API's objects give.
fn wanted(cluster: &Value) -> String {
    judged(cluster)["wanted"]["digest"].as_str().unwrap_or("unknown").to_owned()
}

#[test]
fn the_digest_is_the_one_that_plan_computes_for_the_mounted_files() {
    let mut cluster = cluster();
    let config = cluster["configMaps"]["schedpatch"]["data"]["config.yaml"].as_str().expect("text").to_owned();
    let ca: &[u8] = &[0x30, 0x82, 0x00, 0xff, 0xfe];
    let whole = mount("whole", &[("config.yaml", config.as_bytes()), ("ca.der", ca)]);
    assert_eq!(wanted(&cluster), planned(std::slice::from_ref(&whole)));

    // hidden files are no source, neither there nor here
    cluster["configMaps"]["schedpatch"]["data"][".hidden"] = "x".into();
    fs::write(whole.join("..data/.hidden"), "x").expect("a file");
    assert_eq!(wanted(&cluster), planned(std::slice::from_ref(&whole)));

    // two sources: flags in two words count before the variable; some keys under other names, in a directory below the mount
    let template = &mut cluster["set"]["spec"]["template"]["spec"];
    template["containers"][0]["args"] =
        json!(["run", "--source", "/etc/schedpatch/source/", "--source=/etc/schedpatch//more/below"]);
    let env = template["containers"][0]["env"].as_array_mut().expect("a list");
    env.push(json!({"name": "SCHEDPATCH_SOURCE", "value": "/nowhere"}));
    let mounts = template["containers"][0]["volumeMounts"].as_array_mut().expect("a list");
    mounts.push(json!({"name": "more", "mountPath": "/etc/schedpatch/more"}));
    let items = json!([{"key": "a", "path": "below/z.yaml"}, {"key": "b", "path": "beside.yaml"}]);
    let volumes = template["volumes"].as_array_mut().expect("a list");
    volumes.push(json!({"name": "more", "configMap": {"name": "more", "items": items}}));
    cluster["configMaps"]["more"] = json!({"metadata": {"name": "more"}, "data": {"a": "kind: A\n", "b": "", "c": ""}});
    let more = mount("more", &[("z.yaml", b"kind: A\n")]);
    assert_eq!(wanted(&cluster), planned(&[whole.clone(), more]));

    // no flag: the variable counts, and a source that may be missing is empty
    let template = &mut cluster["set"]["spec"]["template"]["spec"];
    template["containers"][0]["args"] = json!(["run"]);
    assert_eq!(wanted(&cluster), "unknown", "nothing is mounted at /nowhere");
    let template = &mut cluster["set"]["spec"]["template"]["spec"];
    template["containers"][0]["env"][2]["value"] = "/etc/schedpatch/more".into();
    template["volumes"][2]["configMap"] = json!({"name": "absent", "optional": true});
    assert_eq!(wanted(&cluster), planned(&[mount("absent", &[])]));
    // what the agents read through the API must be there, however it is mounted
    let env = json!({"name": "SCHEDPATCH_CONFIG_MAP", "value": "other\nabsent"});
    let variables = cluster["set"]["spec"]["template"]["spec"]["containers"][0]["env"].as_array_mut().expect("a list");
    variables.push(env);
    assert_eq!(wanted(&cluster), "unknown");
    assert_eq!(judged(&cluster)["findings"][0]["rule"], "configmap-missing");
}

#[test]
fn sources_of_the_environment_stand_on_lines_as_the_program_reads_them() {
    let mut cluster = cluster();
    let container = &mut cluster["set"]["spec"]["template"]["spec"]["containers"][0];
    let args = container["args"].as_array().expect("a list").clone();
    let (sources, others): (Vec<_>, Vec<_>) =
        args.into_iter().partition(|word| word.as_str().is_some_and(|word| word.starts_with("--source")));
    let dirs: Vec<_> = sources.iter().filter_map(|word| word.as_str()?.strip_prefix("--source=")).collect();
    assert!(!dirs.is_empty(), "{sources:?}");
    let expected = wanted(&cluster);
    let container = &mut cluster["set"]["spec"]["template"]["spec"]["containers"][0];
    container["args"] = others.into();
    let lines = dirs.join("\n") + "\n";
    container["env"].as_array_mut().expect("a list").push(json!({"name": "SCHEDPATCH_SOURCE", "value": lines}));
    assert_eq!(wanted(&cluster), expected);
}
