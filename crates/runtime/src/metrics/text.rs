//! Series written straight to the page: those that follow from what is there now need no memory of their own, and end
//! with their object.

use std::fmt::Write as _;

/// One metric with its series. Nothing is written before the first of them.
pub(super) struct Gauge<'a> {
    name: &'a str,
    help: &'a str,
    lines: String,
}

impl<'a> Gauge<'a> {
    pub(super) fn new(name: &'a str, help: &'a str) -> Self {
        Self { name, help, lines: String::new() }
    }

    pub(super) fn set<'l>(&mut self, labels: impl IntoIterator<Item = (&'l str, &'l str)>, value: f64) {
        self.lines.push_str(self.name);
        let mut separator = '{';
        for (name, value) in labels {
            let _ = write!(self.lines, "{separator}{name}=\"");
            escaped(value, &mut self.lines);
            self.lines.push('"');
            separator = ',';
        }
        if separator == ',' {
            self.lines.push('}');
        }
        let _ = writeln!(self.lines, " {value}");
    }

    pub(super) fn write(self, page: &mut String) {
        let Self { name, help, lines } = self;
        let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} gauge\n{lines}");
    }

    /// The same under another name.
    pub(super) fn write_as(&self, name: &str, page: &mut String) {
        let _ = write!(page, "# HELP {name} {}\n# TYPE {name} gauge\n", self.help);
        for line in self.lines.lines() {
            let _ = writeln!(page, "{name}{}", line.strip_prefix(self.name).unwrap_or(line));
        }
    }
}

fn escaped(value: &str, out: &mut String) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

/// `ephemeral-storage` as `ephemeral_storage`.
pub(super) fn snake(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

/// CPU in cores, everything else in whole units.
pub(super) fn amount(name: &str, quantity: karpenter_core::Quantity) -> f64 {
    if name == "cpu" { quantity.milli() as f64 / 1000.0 } else { quantity.units() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_can_be_read_by_anybody() {
        let mut gauge = Gauge::new("g", "What it is");
        gauge.set([("a", "plain"), ("b", "say \"\\\n\"")], 1.5);
        gauge.set([], 2.0);
        let mut page = String::new();
        gauge.write_as("old", &mut page);
        gauge.write(&mut page);
        let body = |name: &str| {
            format!(
                "# HELP {name} What it is\n# TYPE {name} gauge\n{name}{{a=\"plain\",b=\"say \\\"\\\\\\n\\\"\"}} 1.5\n{name} 2\n"
            )
        };
        assert_eq!(page, body("old") + &body("g"));
        assert_eq!(
            (snake("ephemeral-Storage"), amount("cpu", karpenter_core::Quantity::from_milli(1500))),
            ("ephemeral_storage".to_owned(), 1.5)
        );
        assert_eq!(amount("memory", karpenter_core::Quantity::from_bytes(1024)), 1024.0);
    }
}
