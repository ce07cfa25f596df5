//! Flags from the table, and how their values are found.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::table::{SETTINGS, Scope, Setting, Shape, boolean, duration, named};

pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The flags that were given, as written; each can be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given(BTreeMap<&'static str, String>);

/// Adds the flags of the table that a command looks at.
pub(crate) fn augment(command: Command, scope: Scope) -> Command {
    let heading = "Settings (each also as an environment variable, e.g. PREFERENCE_POLICY)";
    let command = command.next_help_heading(heading);
    in_scope(scope).fold(command, |command, setting| command.arg(argument(setting)))
}

fn in_scope(scope: Scope) -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(move |setting| scope == Scope::Running || setting.scope == Scope::Planning)
}

fn argument(setting: &'static Setting) -> Arg {
    let default = if setting.default.is_empty() { String::new() } else { format!(" [default: {}]", setting.default) };
    let arg = Arg::new(setting.flag)
        .long(setting.flag)
        .value_name(setting.value_name)
        .help(format!("{}{default}", setting.help))
        .action(ArgAction::Set);
    let shape = setting.shape;
    if shape == Shape::Boolean {
        let strict = |text: &str| match text {
            "true" | "false" => Ok(text.to_owned()),
            _ => Err("it must be true or false"),
        };
        return arg.num_args(0..=1).require_equals(true).default_missing_value("true").value_parser(strict);
    }
    // A negative number is for the check behind to refuse, by name.
    let checked = move |text: &str| shape.check(text).map(|()| text.to_owned());
    arg.allow_hyphen_values(matches!(shape, Shape::Integer | Shape::Number)).value_parser(checked)
}

impl Given {
    pub(crate) fn from_matches(matches: &ArgMatches, scope: Scope) -> Self {
        let given = |setting: &'static Setting| {
            let value = matches.try_get_one::<String>(setting.flag).ok().flatten()?;
            Some((setting.flag, value.clone()))
        };
        Self(in_scope(scope).filter_map(given).collect())
    }

    pub(crate) fn values<'a>(&'a self, env: Env<'a>) -> Values<'a> {
        Values { given: self, env }
    }
}

/// A flag beats the environment, if that can be read, beats the default.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    given: &'a Given,
    env: Env<'a>,
}

impl Values<'_> {
    /// As written.
    pub(crate) fn text(&self, flag: &str) -> String {
        let setting = named(flag);
        let from_env = || (self.env)(setting.env).filter(|text| setting.shape.check(text).is_ok());
        self.given.0.get(setting.flag).cloned().or_else(from_env).unwrap_or_else(|| setting.default.to_owned())
    }

    /// `None` when empty.
    pub(crate) fn some(&self, flag: &str) -> Option<String> {
        Some(self.text(flag)).filter(|text| !text.is_empty())
    }

    pub(crate) fn yes(&self, flag: &str) -> bool {
        boolean(&self.text(flag)).expect("checked, or a default that a test has read")
    }

    pub(crate) fn integer(&self, flag: &str) -> i64 {
        self.text(flag).parse().expect("checked, or a default that a test has read")
    }

    pub(crate) fn number(&self, flag: &str) -> f64 {
        self.text(flag).parse().expect("checked, or a default that a test has read")
    }

    pub(crate) fn port(&self, flag: &str) -> u16 {
        self.text(flag).parse().expect("checked, or a default that a test has read")
    }

    pub(crate) fn duration(&self, flag: &str) -> Duration {
        duration(&self.text(flag)).expect("checked, or a default that a test has read")
    }
}
