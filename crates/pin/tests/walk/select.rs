//! Field and label selectors, as the API server reads them.

use serde_json::Value;

/// Whether an object is among those asked for.
pub fn selects(object: &Value, fields: &str, labels: &str) -> bool {
    let field = |pair: &str| {
        let (key, value) = pair.split_once('=').expect("key=value");
        let pointer = format!("/{}", key.replace('.', "/"));
        object.pointer(&pointer).and_then(Value::as_str).unwrap_or_default() == value
    };
    let label = |pair: &str| {
        let (key, value) = pair.split_once('=').expect("key=value");
        object["metadata"]["labels"][key] == value
    };
    let all = |text: &str, holds: &dyn Fn(&str) -> bool| text.split(',').filter(|pair| !pair.is_empty()).all(holds);
    all(fields, &field) && all(labels, &label)
}
