//! Tables of comma separated cells. The catalogue's files quote nothing: names and numbers need no commas.

use super::text::{Fault, FileError};

/// A data row and where it stands, so that a fault can name its place.
pub(super) struct Row<'a> {
    file: &'static str,
    /// As an editor counts: the header is line 1.
    line: usize,
    header: &'static [&'static str],
    cells: Vec<&'a str>,
}

/// Calls `each` for every data row, after checking the header and the number of cells.
pub(super) fn for_each_row<'a>(
    file: &'static str,
    text: &'a str,
    header: &'static [&'static str],
    mut each: impl FnMut(&Row<'a>) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let mut lines = text.lines().enumerate();
    let found = lines.next().map_or("", |(_, line)| line.trim_start_matches('\u{feff}').trim_end());
    if !found.split(',').eq(header.iter().copied()) {
        let fault = Fault::Header { want: header.join(","), found: found.to_owned() };
        return Err(FileError::at_line(file, 1, fault));
    }
    for (index, line) in lines {
        if line.trim().is_empty() {
            continue;
        }
        let cells: Vec<&str> = line.trim_end().split(',').collect();
        if cells.len() != header.len() {
            let fault = Fault::Cells { want: header.len(), found: cells.len() };
            return Err(FileError::at_line(file, index + 1, fault));
        }
        each(&Row { file, line: index + 1, header, cells })?;
    }
    Ok(())
}

impl<'a> Row<'a> {
    /// The text of a cell, which is never empty: in these tables every column is a key or a price.
    pub(super) fn text(&self, column: usize) -> Result<&'a str, FileError> {
        match self.cells[column] {
            "" => Err(self.fault(column, Fault::Missing)),
            text => Ok(text),
        }
    }

    pub(super) fn price(&self, column: usize) -> Result<karpenter_core::MicroUsd, FileError> {
        let text = self.text(column)?;
        let dollars = text.parse::<f64>().ok();
        dollars
            .and_then(karpenter_core::MicroUsd::from_dollars)
            .ok_or_else(|| self.fault(column, Fault::NoPrice(text.to_owned())))
    }

    pub(super) fn fault(&self, column: usize, fault: Fault) -> FileError {
        FileError::at_line(self.file, self.line, fault).in_field(self.header[column])
    }
}
