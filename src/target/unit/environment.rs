//! The environment of a service, as far as it decides where k3s looks for its files. Pure.

use std::collections::BTreeMap;

use unit_edit::Unit;

use crate::target::HostFiles;

/// Variables by name.
pub(super) type Environment = BTreeMap<String, String>;

/// What `Environment=` and the files of `EnvironmentFile=` say; a file counts more than a setting, and a later one more than
/// an earlier one.
pub(super) fn read<'a>(service: &str, units: impl Iterator<Item = &'a Unit<'a>>, host: &dyn HostFiles) -> Environment {
    let (mut own, mut files) = (Environment::new(), Vec::new());
    for (section, key, value) in units.flat_map(Unit::settings) {
        let value = String::from_utf8_lossy(value);
        match (section, key) {
            ("Service", "Environment") if value.is_empty() => own.clear(),
            ("Service", "Environment") => own.extend(value.split_ascii_whitespace().filter_map(assignment)),
            ("Service", "EnvironmentFile") if value.is_empty() => files.clear(),
            ("Service", "EnvironmentFile") => files.push(path(service, &value)),
            _ => {}
        }
    }
    for file in files {
        let text = host.text(&file).and_then(Result::ok).unwrap_or_default();
        own.extend(text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])).filter_map(assignment));
    }
    own
}

/// `-` before a path means that the file may be missing; `%N` and `%n` are the name of the unit, `%p` what is before its suffix.
fn path(service: &str, value: &str) -> String {
    let bare = service.strip_suffix(".service").unwrap_or(service);
    let path = value.trim_start_matches('-').trim_matches(['"', '\'']);
    path.replace("%N", bare).replace("%p", bare).replace("%n", service)
}

fn assignment(text: &str) -> Option<(String, String)> {
    let (name, value) = text.trim_matches(['"', '\'']).split_once('=')?;
    Some((name.trim().to_owned(), value.trim().trim_matches(['"', '\'']).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HostPath;
    use crate::target::Around;

    #[test]
    fn a_file_of_variables_counts_more_than_the_unit_itself() {
        let text = b"[Service]\nEnvironment=A=1 \"B=2\"\nEnvironmentFile=-/etc/default/%N\nEnvironmentFile=/gone\n";
        let unit = Unit::parse("k3s-x.service", text);
        let mut around = Around::default();
        let content = "# C=9\nB='3'\nexport D=4\n";
        around.files.insert(HostPath::from("/etc/default/k3s-x"), Ok(content.to_owned()));
        let found = read("k3s-x.service", std::iter::once(&unit), &around);
        assert_eq!((found["A"].as_str(), found["B"].as_str(), found.contains_key("C")), ("1", "3", false));
    }
}
