//! Quantities of Kubernetes: `250m`, `1.5Gi`, `2e3`.

/// Reads a quantity in thousandths, rounded up. `None` if it is none.
pub fn thousandths(text: &str) -> Option<i128> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '+' | '-')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (over, under) = unit_of(unit)?;
    let scaled = billionths(number)?.checked_mul(over)?;
    let divisor = under.checked_mul(1_000_000)?;
    Some(scaled.div_euclid(divisor) + i128::from(scaled.rem_euclid(divisor) != 0))
}

/// A number with a sign and a point, in billionths.
fn billionths(text: &str) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let part: String = part.chars().chain(std::iter::repeat('0')).take(9).collect();
    Some(sign * (whole.checked_mul(1_000_000_000)?.checked_add(part.parse().ok()?)?))
}

/// A unit as a fraction.
fn unit_of(unit: &str) -> Option<(i128, i128)> {
    let whole = |factor: i128| Some((factor, 1));
    match unit {
        "" => whole(1),
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1_000)),
        "k" => whole(1_000),
        "M" => whole(1_000_000),
        "G" => whole(1_000_000_000),
        "T" => whole(1_000_000_000_000),
        "P" => whole(1_000_000_000_000_000),
        "E" => whole(1_000_000_000_000_000_000),
        "Ki" => whole(1 << 10),
        "Mi" => whole(1 << 20),
        "Gi" => whole(1 << 30),
        "Ti" => whole(1 << 40),
        "Pi" => whole(1 << 50),
        "Ei" => whole(1 << 60),
        _ => {
            let exponent: i32 = unit.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
            Some(if exponent < 0 { (1, power) } else { (power, 1) })
        }
    }
}

/// An amount in words of people: cores for `cpu`, Mi or Gi for bytes.
pub fn show(resource: &str, thousandths: i128) -> String {
    let is_bytes = matches!(resource, "memory" | "ephemeral-storage" | "storage") || resource.starts_with("hugepages-");
    if is_bytes {
        let mebibytes = thousandths / 1000 / (1 << 20);
        return format!("{mebibytes}Mi");
    }
    if thousandths % 1000 == 0 { (thousandths / 1000).to_string() } else { format!("{thousandths}m") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        for (text, expected) in [
            ("1", 1_000),
            ("250m", 250),
            ("1.5", 1_500),
            (".5", 500),
            ("1Ki", 1_024_000),
            ("1.5Gi", 1_610_612_736_000),
            ("2e3", 2_000_000),
            ("2E-3", 2),
            ("1E", 1_000_000_000_000_000_000_000),
            ("100n", 1),
            ("1500u", 2),
            ("-1", -1_000),
            ("0", 0),
        ] {
            assert_eq!(thousandths(text), Some(expected), "{text}");
        }
        for text in ["", "x", "1.2.3", "1Xi", "m", "1e"] {
            assert_eq!(thousandths(text), None, "{text}");
        }
    }

    #[test]
    fn amounts_are_shown_in_the_units_of_people() {
        assert_eq!(show("cpu", 1_500), "1500m");
        assert_eq!(show("cpu", 2_000), "2");
        assert_eq!(show("memory", 1_073_741_824_000), "1024Mi");
    }
}
