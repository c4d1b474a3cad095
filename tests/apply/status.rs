//! `status` on a host, and the pinned formats of state and status.

use super::host::{APPLY, Host, said};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

#[test]
fn status_tells_what_others_did() {
    let host = Host::new("status");
    let code = |host: &Host| host.run(&["status"]).status.code();
    assert_eq!((host.status()["applied"].clone(), code(&host)), (serde_json::Value::Null, Some(0)));
    host.ok(&APPLY);
    assert_eq!((host.status()["drift"].clone(), code(&host)), ("none".into(), Some(0)));
    let ours = host.text();
    fs::write(host.target(), ours.clone() + "# mine\n").expect("written");
    assert_eq!((host.status()["drift"].clone(), code(&host)), ("edited".into(), Some(3)));
    fs::write(host.target(), &host.original).expect("written");
    assert_eq!((host.status()["drift"].clone(), code(&host)), ("gone".into(), Some(3)));
    fs::write(host.target(), &ours).expect("written");
    fs::remove_file(host.state("state.json")).expect("removed");
    assert_eq!((host.status()["drift"].clone(), code(&host)), ("unknown".into(), Some(3)));
    fs::remove_file(host.target()).expect("removed");
    assert_eq!((host.status()["drift"].clone(), code(&host)), ("unreadable".into(), Some(1)));
}

/// The formats that others may read: `UPDATE_GOLDEN=1` writes them anew.
#[test]
fn the_formats_of_state_and_status_are_pinned() {
    let host = Host::new("formats");
    host.ok(&APPLY);
    host.proven();
    host.ok(&["apply", "--source", "b"]);
    host.edit_journal(|journal| {
        journal["bad"]["0123456789ab"] =
            serde_json::json!({"reason": "unknown flag: --nonsense", "since": "2026-11-16T18:31:08Z"});
        let flight = serde_json::json!({
            "from": journal["current"]["text"], "to": "0".repeat(64), "commit": null, "original": null,
            "since": "2026-11-16T18:31:08Z"
        });
        journal["inFlight"] = flight;
        journal["hold"] = serde_json::json!({"by": "schedpatch restore", "since": "2026-11-16T18:31:08Z"});
        for commit in ["current", "lastGood"] {
            journal[commit]["since"] = "2026-11-16T18:31:08Z".into();
        }
    });
    let pinned = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    let status = String::from_utf8(host.run(&["status", "-o", "json"]).stdout).expect("text");
    let text = said(&host.run(&["status"]));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(&pinned).expect("a directory");
        let mut journal = host.journal();
        let current = journal["current"]["text"].clone();
        journal["restart"] = serde_json::json!({ "text": current, "state": "issued", "before": "start-1" });
        journal["inFlight"]["restarts"] = "start-1".into();
        let journal = serde_json::to_string_pretty(&journal).expect("JSON") + "\n";
        fs::write(pinned.join("state-2.json"), journal).expect("written");
        fs::write(pinned.join("status-1.json"), &status).expect("written");
        fs::write(pinned.join("status.txt"), &text).expect("written");
    }
    let read = |name: &str| fs::read_to_string(pinned.join(name)).expect("run UPDATE_GOLDEN=1 cargo test --test apply");
    assert_eq!(status, read("status-1.json"));
    assert_eq!(text, read("status.txt"));
    // a state file of any format is read for ever, and written back with the same fields
    for name in ["state-1.json", "state-2.json"] {
        let mut old: serde_json::Value = serde_json::from_str(&read(name)).expect("JSON");
        fs::write(host.state("state.json"), read(name)).expect("written");
        host.ok(&["restore"]);
        host.ok(&["apply", "--source", "b"]);
        host.ok(&["restore"]);
        let new = host.journal();
        assert_eq!(new["version"], 1, "where nothing is restarted older versions read it too");
        let fields =
            |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        // nobody has to restart what the kubelet restarts
        old.as_object_mut().expect("an object").remove("restart");
        assert_eq!(fields(&old), fields(&new), "{name}");
    }
}

#[test]
fn status_sees_a_damaged_revision_and_apply_mends_it() {
    let host = Host::new("damaged");
    host.ok(&APPLY);
    let revision = host.status()["applied"]["revision"].as_str().expect("text").to_owned();
    let dir = host.state("revisions").join(revision);
    let (config, inode) = (dir.join("config.yaml"), fs::metadata(host.target()).expect("there").ino());
    let good = fs::read(&config).expect("there");
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    let damages: [&dyn Fn(); 5] = [
        &|| fs::remove_dir_all(&dir).expect("removed"),
        &|| fs::write(&config, "tampered").expect("written"),
        &|| mode(&config, 0o600),
        &|| mode(&dir, 0o700),
        &|| {
            fs::rename(&config, host.root.join("elsewhere")).expect("moved");
            symlink(host.root.join("elsewhere"), &config).expect("linked");
        },
    ];
    for (number, damage) in damages.iter().enumerate() {
        damage();
        assert_eq!(host.run(&["status"]).status.code(), Some(3), "damage {number} is seen");
        host.ok(&APPLY);
        assert_eq!(fs::read(&config).expect("there"), good, "damage {number}");
        assert_eq!(fs::symlink_metadata(&config).expect("there").mode() & 0o777, 0o644, "damage {number}");
        assert_eq!(fs::metadata(&dir).expect("there").mode() & 0o777, 0o755, "damage {number}");
        assert_eq!(fs::metadata(host.target()).expect("there").ino(), inode, "damage {number}: no restart");
        assert_eq!(host.run(&["status"]).status.code(), Some(0), "damage {number}");
    }
}
