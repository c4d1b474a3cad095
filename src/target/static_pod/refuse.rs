//! Manifests that are refused before anything in them is looked for: JSON, templates, placeholders.

use yaml_edit::{Node, Tree};

use crate::target::refusal::{Refusal, Rule};

/// Reads and checks a manifest up to the point where it could be edited.
pub(super) fn read_tree(text: &str) -> Result<Tree<'_>, Refusal> {
    let has_mark = text.contains('\u{feff}') || yaml_edit::has_template_mark(text);
    if text.trim_start().starts_with('{') && !has_mark {
        return Err(Refusal::at_line(Rule::Json, 1, "the manifest is written as JSON"));
    }
    yaml_edit::check_text(text)?;
    let tree = Tree::read(text).map_err(|error| yaml_edit::explain_unreadable(text, error))?;
    tree.no_template(tree.root.get("metadata").and_then(|metadata| metadata.get("annotations")))?;
    tree.no_tab()?;
    if tree.root.flow {
        return Err(Refusal::at_line(Rule::Json, tree.line(tree.root.span.start), "the manifest is written as JSON"));
    }
    Ok(tree)
}

/// Refuses a value that a person or a script still has to fill in.
pub(super) fn no_placeholder(tree: &Tree<'_>, node: &Node<'_>) -> Result<(), Refusal> {
    let Some(value) = node.text() else { return Ok(()) };
    let wrapped = |open: &str, close: &str| {
        value.split_once(open).and_then(|(_, rest)| rest.split_once(close)).map(|(name, _)| name)
    };
    let is_name = |name: &&str| !name.is_empty() && !name.bytes().any(|byte| byte.is_ascii_lowercase());
    let any =
        [("${", "}"), ("<", ">")].iter().any(|(open, close)| wrapped(open, close).is_some_and(|name| !name.is_empty()));
    if any
        || [("__", "__"), ("@@", "@@")].iter().any(|(open, close)| wrapped(open, close).as_ref().is_some_and(is_name))
    {
        let message = format!("{value:?} holds a placeholder");
        return Err(Refusal::at_line(Rule::Template, tree.line(node.span.start), message));
    }
    Ok(())
}

/// Refuses an image that no registry can serve, such as `SCHEDULER`: repositories are written in lower case.
pub(super) fn no_placeholder_image(tree: &Tree<'_>, node: &Node<'_>) -> Result<(), Refusal> {
    no_placeholder(tree, node)?;
    if node.is_null() {
        return Ok(());
    }
    let image = node.text().unwrap_or_default();
    let name = image.split('@').next().unwrap_or_default();
    let (host, repository) = name.split_once('/').map_or(("", name), |(host, rest)| (host, rest));
    let repository = repository.rsplit_once(':').map_or(repository, |(path, _)| path);
    let bad = |part: &str, upper: bool| {
        part.chars()
            .any(|c| !(c.is_ascii_alphanumeric() || "._-/:[]".contains(c)) || (!upper && c.is_ascii_uppercase()))
    };
    if repository.is_empty() || bad(host, true) || bad(repository, false) {
        let message = format!("{image:?} is no image that can be pulled: a placeholder?");
        return Err(Refusal::at_line(Rule::Template, tree.line(node.span.start), message));
    }
    Ok(())
}
