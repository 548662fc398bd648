//! Tables without rules, for text reports.

use comfy_table::{CellAlignment, ContentArrangement, Table};

/// An empty table.
///
/// - `right`: columns that are aligned right.
pub(crate) fn new<'a>(header: impl IntoIterator<Item = &'a str>, right: impl IntoIterator<Item = usize>) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for column in right {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Formats a table.
pub(crate) fn lines(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
