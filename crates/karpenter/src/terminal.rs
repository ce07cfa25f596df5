//! Text for people: columns, and a little colour where somebody looks at it.

use std::io::IsTerminal;

/// Whether output is for eyes. Pipes, `NO_COLOR` and dumb terminals get plain text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Colour,
}

/// What the user says of colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

impl Style {
    pub(crate) fn of_stdout(color: Color, env: &dyn Fn(&str) -> Option<String>) -> Self {
        let refused = env("NO_COLOR").is_some_and(|value| !value.is_empty()) || env("TERM").as_deref() == Some("dumb");
        let coloured = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => std::io::stdout().is_terminal() && !refused,
        };
        if coloured { Self::Colour } else { Self::Plain }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Colour => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.wrap("31", text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows below a header, each column as wide as its widest cell.
pub(crate) fn columns(header: &[(&str, Align)], rows: &[Vec<String>], style: Style) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].0.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &[&str]| {
        let padded = cells.iter().enumerate().map(|(column, cell)| match header[column].1 {
            Align::Left => format!("{cell:<width$}", width = widths[column]),
            Align::Right => format!("{cell:>width$}", width = widths[column]),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let titles: Vec<&str> = header.iter().map(|(title, _)| *title).collect();
    let mut text = style.bold(&line(&titles)) + "\n";
    for row in rows {
        text += &line(&row.iter().map(String::as_str).collect::<Vec<_>>());
        text.push('\n');
    }
    text
}
