//! Tables for people. Pure.

/// A table that must fit a terminal is at most this wide.
const MAX_WIDTH: usize = 120;
/// So much of the first column stays, however wide the others are.
const MIN_FIRST: usize = 16;
/// What is not known.
pub const NOTHING: &str = "-";

/// How much of a table is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// What fits 120 characters; longer cells are cut
    Few,
    /// Everything
    All,
}

/// One line for the titles and one for each row.
pub fn table<const N: usize>(titles: [&str; N], rows: &[[String; N]], columns: Columns) -> String {
    let titles = titles.map(str::to_owned);
    let lines = || std::iter::once(&titles).chain(rows);
    let mut widths: [usize; N] =
        std::array::from_fn(|column| lines().map(|row| row[column].chars().count()).max().unwrap_or_default());
    if columns == Columns::Few && N > 1 {
        let mut excess = (widths.iter().sum::<usize>() + 2 * (N - 1)).saturating_sub(MAX_WIDTH);
        for (column, least) in [(0, MIN_FIRST), (N - 1, 0)] {
            let cut = excess.min(widths[column].saturating_sub(least));
            (widths[column], excess) = (widths[column] - cut, excess - cut);
        }
    }
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{:<width$}", cut(cell, width)));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    lines().map(line).collect()
}

/// A text of at most this many characters.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_columns_fit_120_characters_however_long_the_names_are() {
        let row = |name: usize, reason: usize| {
            ["n".repeat(name), "RestartRequired".to_owned(), "m".repeat(60), "r".repeat(reason)]
        };
        let rows = [row(63, 30), row(3, 2)];
        let titles = ["NODE", "PHASE", "MIDDLE", "REASON"];
        let few = table(titles, &rows, Columns::Few);
        assert!(few.lines().all(|line| line.chars().count() <= MAX_WIDTH), "{few}");
        assert!(few.contains("n…") && few.contains("r…"), "{few}");
        assert!(few.contains("RestartRequired") && few.contains("nnn  "), "{few}");
        let all = table(titles, &rows, Columns::All);
        assert!(all.contains(&"n".repeat(63)) && all.contains(&"r".repeat(30)), "{all}");
    }

    #[test]
    fn short_tables_are_not_cut() {
        let shown = table(["NODE", "PHASE"], &[["cp1".to_owned(), "Ready".to_owned()]], Columns::Few);
        assert_eq!(shown, "NODE  PHASE\ncp1   Ready\n");
    }
}
