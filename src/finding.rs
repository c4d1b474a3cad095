//! What a stage has to tell a person: one shape for refusals, lint results and warnings.

use serde::Serialize;

/// Writes a table of rules once: variant, stable name, way out.
macro_rules! rules {
    ($(#[$about:meta])* $rules:ident { $(#[doc = $about_rule:literal] $variant:ident = $name:literal, $way_out:literal;)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $rules { $(#[doc = $about_rule] $variant,)* }

        impl $rules {
            /// Every rule, for documents and tests.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it is about, in a sentence.
            pub fn about(self) -> &'static str {
                match self { $(Self::$variant => $about_rule.trim_ascii(),)* }
            }

            /// What a person can do about it.
            pub fn way_out(self) -> &'static str {
                match self { $(Self::$variant => $way_out,)* }
            }
        }

        impl std::fmt::Display for $rules {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
pub(crate) use rules;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing is planned.
    Error,
    /// Goes on, but somebody should know.
    Warning,
    /// Good to know.
    Info,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How bad it is
    pub level: Level,
    /// Stable name of the rule
    pub rule: &'static str,
    /// The file it is about, as the host sees it
    pub file: Option<String>,
    /// The line, from 1
    pub line: Option<usize>,
    /// What was found, in words
    pub message: String,
    /// What a person can do about it
    pub way_out: String,
}

impl Finding {
    /// A finding that stops the plan.
    pub fn error(rule: &'static str, message: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self { level: Level::Error, rule, file: None, line: None, message: message.into(), way_out: way_out.into() }
    }

    /// A finding that does not.
    pub fn warning(rule: &'static str, message: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::error(rule, message, way_out) }
    }

    /// A finding that is only reported.
    pub fn info(rule: &'static str, message: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self { level: Level::Info, ..Self::error(rule, message, way_out) }
    }

    /// About this file.
    #[must_use]
    pub fn in_file(self, file: impl Into<String>) -> Self {
        Self { file: Some(file.into()), ..self }
    }

    /// At this line.
    #[must_use]
    pub fn at_line(self, line: Option<usize>) -> Self {
        Self { line, ..self }
    }
}
