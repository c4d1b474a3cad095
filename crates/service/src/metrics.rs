//! Prometheus' text format, written directly.

use std::fmt::Write as _;

/// Collects metric families as text.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// Starts a family: help and type lines.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.0.push_str("# HELP ");
        let _ = writeln!(self.0, "{name} {}", help.replace('\\', r"\\").replace('\n', r"\n"));
        self.kind(name, kind);
    }

    /// A type line alone, for series that need no words.
    pub fn kind(&mut self, name: &str, kind: &str) {
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
    }

    /// One sample. Values are written so that whole numbers end in `.0`, as other exporters do.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0.push_str(name);
        for (number, (key, text)) in labels.iter().enumerate() {
            let escaped = text.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n");
            let _ = write!(self.0, "{}{key}=\"{escaped}\"", if number == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.0, "{} {value:?}", if labels.is_empty() { "" } else { "}" });
    }

    /// The whole text.
    pub fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_whole_numbers_end_in_a_point_and_zero() {
        let mut text = Text::default();
        text.family("a_total", "counter", "How many");
        text.sample("a_total", &[("x", "1\"2\\3\n"), ("y", "")], 1.0);
        text.sample("b", &[], 0.5);
        let expected =
            "# HELP a_total How many\n# TYPE a_total counter\na_total{x=\"1\\\"2\\\\3\\n\",y=\"\"} 1.0\nb 0.5\n";
        assert_eq!(text.finish(), expected);
    }
}
