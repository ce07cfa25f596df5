//! `karpenter man`.

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Arg, Command, CommandFactory};

use crate::cli::Cli;

/// Print the manual page of a command, or write all of them
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter man plan | man -l -
  karpenter man --all /usr/local/share/man/man1")]
pub(crate) struct Args {
    /// The command, such as plan or import cluster-definition; karpenter itself unless given
    #[arg(value_name = "COMMAND", conflicts_with = "all")]
    command: Vec<String>,
    /// Write a page for each command to this folder
    #[arg(long, value_name = "FOLDER")]
    all: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let mut root = Cli::command();
    root.build();
    if let Some(folder) = &args.all {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        for (name, page) in pages(&root) {
            let file = folder.join(format!("{name}.1"));
            std::fs::write(&file, page).with_context(|| file.display().to_string())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let name =
        std::iter::once("karpenter").chain(args.command.iter().map(String::as_str)).collect::<Vec<_>>().join("-");
    let Some((_, page)) = pages(&root).into_iter().find(|(known, _)| *known == name) else {
        anyhow::bail!("there is no command {}", args.command.join(" "));
    };
    out.write_all(page.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Every command's page, by name: `karpenter-plan`.
fn pages(root: &Command) -> Vec<(String, String)> {
    fn collect(command: &Command, name: &str, pages: &mut Vec<(String, String)>) {
        pages.push((name.to_owned(), page(command, name)));
        for below in visible(command) {
            collect(below, &format!("{name}-{}", below.get_name()), pages);
        }
    }
    let mut pages = Vec::new();
    collect(root, root.get_name(), &mut pages);
    pages
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
}

fn page(command: &Command, name: &str) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut page = format!(".TH {} 1 \"\" \"karpenter {}\"\n", name.to_uppercase(), env!("CARGO_PKG_VERSION"));
    section(&mut page, "NAME", &format!("{name} - {about}"));
    let usage = command.clone().render_usage().to_string();
    section(&mut page, "SYNOPSIS", usage.trim_start_matches("Usage:").trim());
    if let Some(long) = command.get_long_about() {
        section(&mut page, "DESCRIPTION", &long.to_string());
    }
    let options: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set()).collect();
    if !options.is_empty() {
        page += ".SH OPTIONS\n";
        options.into_iter().for_each(|option| self::option(&mut page, option));
    }
    let commands: Vec<&Command> = visible(command).collect();
    if !commands.is_empty() {
        page += ".SH COMMANDS\n";
        for below in commands {
            let about = below.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = write!(page, ".TP\n\\fB{name}-{}\\fR(1)\n{}\n", roff(below.get_name()), roff(&about));
        }
    }
    if let Some(examples) = command.get_after_help() {
        let examples = examples.to_string();
        let (title, text) = examples.split_once(":\n").unwrap_or(("Notes", &examples));
        let _ = write!(page, ".SH {}\n.nf\n{}\n.fi\n", title.to_uppercase(), roff(text));
    }
    page
}

fn section(page: &mut String, title: &str, text: &str) {
    let _ = write!(page, ".SH {title}\n{}\n", roff(text));
}

fn option(page: &mut String, option: &Arg) {
    let values: Vec<String> = option.get_value_names().into_iter().flatten().map(|name| format!("<{name}>")).collect();
    let takes = option.get_action().takes_values();
    let value = if takes { values.join(" ") } else { String::new() };
    let short = option.get_short().map(|short| format!("-{short}"));
    let long = option.get_long().map(|long| format!("--{long}"));
    let spelled: Vec<String> = short.into_iter().chain(long).collect();
    let shown = if spelled.is_empty() { value } else { format!("{} {value}", spelled.join(", ")) };
    let help = option.get_long_help().or(option.get_help()).map(ToString::to_string).unwrap_or_default();
    let _ = write!(page, ".TP\n\\fB{}\\fR\n{}\n", roff(shown.trim()), roff(&help));
    let defaults: Vec<_> = option.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes && !defaults.is_empty() && !option.is_hide_default_value_set() {
        let _ = writeln!(page, "[default: {}]", roff(&defaults.join(", ")));
    }
    if let Some(variable) = option.get_env() {
        let _ = writeln!(page, "[env: {}]", roff(&variable.to_string_lossy()));
    }
    let one_of: Vec<String> = option.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if takes && !one_of.is_empty() {
        let _ = writeln!(page, "[one of: {}]", roff(&one_of.join(", ")));
    }
}

/// Text as roff has it: dashes that can be copied, and no line that looks like a request. Empty lines are paragraphs.
fn roff(text: &str) -> String {
    let line = |line: &str| {
        let escaped = line.replace('\\', "\\e").replace('-', "\\-");
        match escaped.chars().next() {
            Some('.' | '\'') => format!("\\&{escaped}"),
            None => ".PP".to_owned(),
            Some(_) => escaped,
        }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_options_and_examples() {
        let mut root = Cli::command();
        root.build();
        let pages = pages(&root);
        let page = |name: &str| &pages.iter().find(|(known, _)| known == name).unwrap().1;
        for name in ["karpenter", "karpenter-plan", "karpenter-demo", "karpenter-import-cluster-definition"] {
            assert!(page(name).starts_with(&format!(".TH {} 1", name.to_uppercase())), "{name}");
        }
        let plan = page("karpenter-plan");
        for part in [
            ".SH NAME\nkarpenter\\-plan \\- Show",
            "\\fB\\-f, \\-\\-file <PATH>\\fR",
            "[one of: table, json, yaml]",
            ".SH EXAMPLES\n.nf",
        ] {
            assert!(plan.contains(part), "{part} is not in\n{plan}");
        }
        assert!(page("karpenter").contains("\\fBkarpenter-plan\\fR(1)"), "{}", page("karpenter"));
        for (name, page) in &pages {
            let odd = page.lines().find(|line| {
                line.starts_with('.')
                    && !line.starts_with(".TH ")
                    && ![".nf", ".fi", ".TP", ".PP"].contains(line)
                    && !line.starts_with(".SH ")
            });
            assert_eq!(odd, None, "{name}: a line that roff takes for a request");
        }
    }
}
