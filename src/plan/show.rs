//! A plan for people: who, what, why, and a diff of every file.

use std::fmt::{self, Write as _};

use anstyle::{AnsiColor, Style};

use super::{Plan, Step, StepKind, diff};
use crate::finding::{Finding, Level};

/// Whether to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Plain text
    Off,
    /// ANSI colours
    On,
}

const RED: Style = AnsiColor::Red.on_default();
const GREEN: Style = AnsiColor::Green.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const CYAN: Style = AnsiColor::Cyan.on_default();
const BOLD: Style = Style::new().bold();

impl Colour {
    fn paint(self, style: Style, text: &str) -> String {
        match self {
            Self::On => format!("{style}{text}{style:#}"),
            Self::Off => text.to_owned(),
        }
    }
}

/// The plan as text. What files hold cannot steer the terminal: control characters are shown, not sent.
pub fn show(plan: &Plan, colour: Colour) -> String {
    let mut out = String::new();
    // writing to a String cannot fail
    let _ = write(&mut out, plan, colour);
    out
}

/// Findings alone, as text.
pub fn show_findings(findings: &[Finding], colour: Colour) -> String {
    let mut out = String::new();
    for finding in findings {
        let _ = write_finding(&mut out, finding, colour);
    }
    out
}

/// Text of files and names, safe for a terminal.
pub fn visible(text: &str) -> String {
    let show = |c: char| if c.is_control() && c != '\t' { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(show).collect()
}

fn write(out: &mut String, plan: &Plan, colour: Colour) -> fmt::Result {
    if let Some(platform) = plan.platform {
        writeln!(out, "platform    {platform} (seen: {})", visible(&plan.evidence.join(", ")))?;
    }
    if let Some(scheduler) = &plan.scheduler {
        writeln!(out, "scheduler   {} (from: {})", visible(&scheduler.text), visible(&scheduler.from))?;
    }
    if let (Some(revision), Some(generation)) = (&plan.revision, plan.generation) {
        writeln!(out, "revision    {revision}, generation {generation}")?;
    }
    if let Some(digest) = &plan.digest {
        writeln!(out, "digest      {digest}")?;
    }
    for (index, origin) in plan.origins.iter().enumerate() {
        let title = if index == 0 { "origins" } else { "" };
        writeln!(out, "{title:<11} {} ← {}", visible(&origin.part), visible(&origin.from))?;
    }
    for finding in &plan.findings {
        write_finding(out, finding, colour)?;
    }
    for (index, step) in plan.steps().iter().enumerate() {
        write_step(out, index + 1, step, colour)?;
    }
    if plan.is_refused() {
        writeln!(out, "\n{}", colour.paint(RED, "Nothing is planned."))
    } else if plan.steps().is_empty() {
        writeln!(out, "\n{}", colour.paint(GREEN, "Nothing to change."))
    } else {
        let stays = |step: &&Step| matches!(step.kind, StepKind::WriteFile | StepKind::ReplaceTarget | StepKind::Keep);
        let files = plan.steps().iter().filter(stays).count();
        let noun = if files == 1 { "file" } else { "files" };
        writeln!(out, "\n{}", colour.paint(BOLD, &format!("{files} {noun} to change. Nothing was written.")))
    }
}

fn write_finding(out: &mut String, finding: &Finding, colour: Colour) -> fmt::Result {
    let (word, code) = match finding.level {
        Level::Error => ("error", RED),
        Level::Warning => ("warning", YELLOW),
        Level::Info => ("note", CYAN),
    };
    write!(out, "\n{}", colour.paint(code, &format!("{word}[{}]", finding.rule)))?;
    match (&finding.file, finding.line) {
        (Some(file), Some(line)) => write!(out, " {file}:{line}")?,
        (Some(file), None) => write!(out, " {file}")?,
        (None, _) => {}
    }
    writeln!(out, "\n  {}\n  way out: {}", visible(&finding.message), visible(&finding.way_out))
}

fn write_step(out: &mut String, number: usize, step: &Step, colour: Colour) -> fmt::Result {
    let verb = match step.kind {
        StepKind::WriteFile => "write",
        StepKind::Preflight => "try",
        StepKind::ReplaceTarget => "replace",
        StepKind::Keep => "keep",
        StepKind::Restart => "restart the scheduler of",
    };
    let owner = step.access.owner().map_or_else(String::new, |owner| format!(", owner {owner}"));
    let mut title = format!("{number}. {verb} {}", step.path);
    if step.kind != StepKind::Restart {
        write!(title, " (mode {:04o}{owner})", step.access.mode)?;
    }
    writeln!(out, "\n{}: {}", colour.paint(BOLD, &title), step.why)?;
    for line in diff::unified(step).lines() {
        let code = match line.as_bytes().first() {
            Some(b'+') => Some(GREEN),
            Some(b'-') => Some(RED),
            Some(b'@') => Some(CYAN),
            _ => None,
        };
        let line = visible(line.strip_suffix('\r').unwrap_or(line));
        writeln!(out, "{}", code.map_or_else(|| line.clone(), |code| colour.paint(code, &line)))?;
    }
    Ok(())
}
