//! The demo on a terminal: nodes as they are bought, boot, fill and empty, and the reasons.

use std::io;
use std::time::Duration;

use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table};
use tokio::sync::mpsc::UnboundedSender;

use super::happenings::Happening;
use super::stage::{LineKind, Shown, Stage};
use super::view::{NodeRow, State};

/// Ten pictures a second.
const REFRESH: Duration = Duration::from_millis(100);

/// Draws until `q`, Ctrl-C, or until `over` says so, and hands on what keys make happen. Takes the terminal and gives it
/// back, also after a panic.
pub(crate) fn show(stage: &Stage, keys: &UnboundedSender<Happening>, over: &dyn Fn() -> bool) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let outcome = (|| {
        while !over() {
            let shown = stage.shown();
            terminal.draw(|frame| draw(frame, &shown))?;
            if !event::poll(REFRESH)? {
                continue;
            }
            let event = event::read()?;
            if is_end(&event) {
                break;
            }
            // Whoever listened is gone at the very end only.
            let _ = happening(&event).map(|happening| keys.send(happening));
        }
        Ok(())
    })();
    ratatui::restore();
    outcome
}

fn is_end(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press && (interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}

fn happening(event: &Event) -> Option<Happening> {
    match event {
        Event::Key(key) if key.kind == KeyEventKind::Press => Happening::of_key(key.code.as_char()?),
        _ => None,
    }
}

fn draw(frame: &mut Frame<'_>, shown: &Shown) {
    let width = usize::from(frame.area().width);
    let last = bottom(shown, width);
    let footer = u16::try_from(last.len()).unwrap_or(u16::MAX);
    let nodes = u16::try_from(shown.view.nodes.len()).unwrap_or(u16::MAX).saturating_add(2).max(8);
    let areas = Layout::vertical([
        Constraint::Length(4),
        Constraint::Max(nodes),
        Constraint::Min(5),
        Constraint::Length(footer),
    ])
    .split(frame.area());
    frame.render_widget(header(shown), areas[0]);
    frame.render_widget(table(shown, areas[1]), areas[1]);
    frame.render_widget(decisions(shown, areas[2]), areas[2]);
    frame.render_widget(Paragraph::new(last), areas[3]);
}

fn header(shown: &Shown) -> Paragraph<'_> {
    let view = &shown.view;
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let clock = format!("{:>2}:{:02}", view.elapsed.as_secs() / 60, view.elapsed.as_secs() % 60);
    let pods = |count: usize, word: &str, colour| Span::styled(format!("{count} {word}  "), Style::new().fg(colour));
    Paragraph::new(vec![
        Line::from(vec![Span::styled(clock, bold), Span::raw("  "), Span::styled(shown.step.clone(), bold)]),
        Line::from(vec![
            Span::raw("pods  "),
            pods(view.waiting, "waiting", Color::Yellow),
            pods(view.starting, "starting", Color::Cyan),
            pods(view.running, "running", Color::Green),
            Span::raw(format!(
                "   nodes  {}    ${:.4}/h    ${:.4} spent",
                view.nodes.len(),
                view.per_hour.dollars(),
                view.spent.dollars()
            )),
        ]),
    ])
    .block(Block::default().borders(Borders::BOTTOM).title("karpenter demo"))
}

/// From this width on there is room for bars.
const WIDE: u16 = 112;

fn table(shown: &Shown, area: Rect) -> Table<'static> {
    let wide = area.width >= WIDE;
    let share = if wide { ("MEMORY", 17) } else { ("MEM", 4) };
    // All but the name, which has the rest.
    let columns = [
        ("TYPE", 14),
        ("CAPACITY", 9),
        ("ZONE", 10),
        ("STATE", 7),
        ("PODS", 4),
        ("CPU", share.1),
        share,
        ("$/HOUR", 7),
    ];
    let others: u16 = columns.iter().map(|(_, width)| width + 1).sum();
    let name = area.width.saturating_sub(others).clamp(8, 40);
    let widths = std::iter::once(name).chain(columns.iter().map(|(_, width)| *width)).map(Constraint::Length);
    let head = std::iter::once("NODE").chain(columns.iter().map(|(head, _)| *head));
    let title = Row::new(head.collect::<Vec<_>>()).style(Style::new().add_modifier(Modifier::BOLD));
    let room = usize::from(area.height.saturating_sub(1));
    let nodes = &shown.view.nodes;
    let fitting = if nodes.len() <= room { nodes.len() } else { room.saturating_sub(1) };
    let mut rows: Vec<Row<'static>> = nodes[..fitting].iter().map(|node| row(node, usize::from(name), wide)).collect();
    if fitting < nodes.len() {
        rows.push(Row::new([format!("+{} more", nodes.len() - fitting)]).style(Style::new().fg(Color::DarkGray)));
    }
    Table::new(rows, widths).header(title).column_spacing(1)
}

fn row(node: &NodeRow, name: usize, wide: bool) -> Row<'static> {
    let colour = match node.state {
        State::Planned | State::Booting => Color::Yellow,
        State::Joining => Color::Cyan,
        State::Ready => Color::Green,
        State::Leaving => Color::Red,
    };
    let price = if node.price.0 == 0 { String::new() } else { format!("{:.4}", node.price.dollars()) };
    let share = if wide { bar } else { percent };
    Row::new(vec![
        Cell::from(without_middle(&node.claim, name)),
        Cell::from(without_middle(&node.instance_type, 14)),
        Cell::from(node.capacity_type.clone()),
        Cell::from(without_middle(&node.zone, 10)),
        Cell::from(Span::styled(node.state.word(), Style::new().fg(colour))),
        Cell::from(node.pods.to_string()),
        Cell::from(share(node.cpu)),
        Cell::from(share(node.memory)),
        Cell::from(price),
    ])
}

/// Both ends of a name that does not fit: its pool, and what tells it from others.
fn without_middle(text: &str, width: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let (start, end) = (kept.div_ceil(2), kept / 2);
    letters[..start].iter().chain(['…'].iter()).chain(&letters[letters.len() - end..]).collect()
}

/// The start of a line that does not fit.
fn without_end(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// The text in lines of at most this width, broken at blanks where there are any.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        let line = lines.last_mut().expect("there is one from the start");
        if line.chars().count() + 1 + word.len() <= width && !line.is_empty() {
            line.push(' ');
            line.extend(word);
            continue;
        }
        if !line.is_empty() {
            lines.push(String::new());
        }
        while word.len() > width.max(1) {
            let rest = word.split_off(width.max(1));
            lines.last_mut().expect("pushed above").extend(word);
            lines.push(String::new());
            word = rest;
        }
        lines.last_mut().expect("pushed above").extend(word);
    }
    lines
}

fn cut(text: &str, width: usize) -> Vec<String> {
    text.chars().collect::<Vec<_>>().chunks(width.max(1)).map(|letters| letters.iter().collect()).collect()
}

fn percent((used, all): (i64, i64)) -> String {
    if all <= 0 { String::new() } else { format!("{}%", (used * 100 / all).clamp(0, 100)) }
}

/// Ten characters wide, and a number.
fn bar((used, all): (i64, i64)) -> String {
    if all <= 0 {
        return String::new();
    }
    let percent = (used * 100 / all).clamp(0, 100);
    let full = usize::try_from((percent + 5) / 10).unwrap_or(0);
    format!("{}{} {percent:>3}%", "█".repeat(full), "░".repeat(10 - full))
}

fn decisions(shown: &Shown, area: Rect) -> Paragraph<'_> {
    let room = usize::from(area.height.saturating_sub(1));
    let lines = shown.lines.iter().rev().take(room).rev().map(|line| {
        let style = match line.kind {
            LineKind::Step => Style::new().add_modifier(Modifier::BOLD),
            LineKind::Decision => Style::new().fg(Color::Magenta),
            LineKind::Node => Style::new(),
            LineKind::Pods => Style::new().fg(Color::Green),
        };
        let at = format!("{:>2}:{:02}  ", line.at.as_secs() / 60, line.at.as_secs() % 60);
        let text = without_end(&line.text, usize::from(area.width).saturating_sub(at.len()));
        Line::from(vec![Span::styled(at, Style::new().fg(Color::DarkGray)), Span::styled(text, style)])
    });
    Paragraph::new(lines.collect::<Vec<_>>())
        .block(Block::default().borders(Borders::TOP).title("what was decided, and what came of it"))
}

/// The summary once there is one, how to reach the cluster, and the keys; all of it whole.
fn bottom(shown: &Shown, width: usize) -> Vec<Line<'static>> {
    let dim = Style::new().fg(Color::DarkGray);
    let summary = shown.summary.iter().flat_map(|text| text.lines());
    let mut lines: Vec<Line<'static>> = summary.flat_map(|line| wrapped(line, width)).map(Line::from).collect();
    let reach = format!("{}   kubectl get nodes,nodeclaims,pods -A", shown.kubeconfig);
    // Cut only where the terminal ends, so that it can be copied.
    let reach = if reach.chars().count() <= width { vec![reach] } else { cut(&shown.kubeconfig, width) };
    lines.extend(reach.into_iter().map(|line| Line::styled(line, dim)));
    lines.push(Line::styled("d drift   e expiry   r spot reclaim   q ends the demo", dim));
    lines
}

#[cfg(test)]
mod tests {
    use karpenter_core::MicroUsd;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::demo::view::View;

    #[tokio::test(start_paused = true)]
    async fn everything_is_on_the_screen() {
        let stage = Stage::new("export KUBECONFIG=/kc");
        stage.step("scale up: web to 36");
        stage.say(LineKind::Decision, "buy default-1 for 3 pods".to_owned());
        let node = NodeRow {
            claim: "default-1".to_owned(),
            node: "ip-1".to_owned(),
            instance_type: "m6g.large".to_owned(),
            zone: "us-east-1a".to_owned(),
            capacity_type: "spot".to_owned(),
            price: MicroUsd(30_800),
            state: State::Ready,
            pods: 2,
            cpu: (950, 1900),
            memory: (0, 0),
        };
        stage.show(View { nodes: vec![node], running: 2, waiting: 1, per_hour: MicroUsd(30_800), ..View::default() });
        stage.finish("1 node launched".to_owned());
        let mut terminal = Terminal::new(TestBackend::new(120, 24)).unwrap();
        let shown = stage.shown();
        terminal.draw(|frame| draw(frame, &shown)).unwrap();
        let text = terminal.backend().to_string();
        for part in [
            "0:00  scale up: web to 36",
            "1 waiting",
            "2 running",
            "$0.0308/h",
            "default-1",
            "m6g.large",
            "ready",
            "█████░░░░░  50%",
            "buy default-1 for 3 pods",
            "export KUBECONFIG=/kc",
            "1 node launched",
            "q ends the demo",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(stage.take_unread().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_terminal_shows_whole_names_and_says_what_it_leaves_out() {
        let kubeconfig = "export KUBECONFIG=/tmp/karpenter-demo-0123456789/a-folder-with-a-long-name/kubeconfig.yaml";
        let stage = Stage::new(kubeconfig);
        let long =
            "remove default-abcde (ip-10-0-33-201.ec2.internal) for default-fghij, because all of it fits elsewhere";
        stage.say(LineKind::Decision, long.to_owned());
        let node = |number: usize| NodeRow {
            claim: if number == 1 {
                "a-pool-with-a-long-name-x7k2f".to_owned()
            } else {
                format!("default-x7k{number:02}")
            },
            node: format!("ip-{number}"),
            instance_type: "g4dn.12xlarge".to_owned(),
            zone: "us-east-1a".to_owned(),
            capacity_type: "on-demand".to_owned(),
            price: MicroUsd(3_912_000),
            state: State::Joining,
            pods: 12,
            cpu: (950, 950),
            memory: (0, 5),
        };
        stage.show(View { nodes: (1..=20).map(node).collect(), ..View::default() });
        let summary =
            "36 nodes launched, 120 pods run, $0.1234 spent; from pending to running 41.2 s (median), 61.7 s (p99)";
        stage.finish(summary.to_owned());
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let shown = stage.shown();
        terminal.draw(|frame| draw(frame, &shown)).unwrap();
        let text = terminal.backend().to_string();
        let row = "default-x7k02 g4dn.12xlarge  on-demand us-east-1a joining 12   100% 0%   3.9120";
        assert!(text.contains(row), "{row} is not in\n{text}");
        assert!(text.contains("a-pool…-x7k2f"), "{text}");
        let shown_nodes = text.lines().filter(|line| line.contains("g4dn.12xlarge")).count();
        assert!(text.contains(&format!("+{} more", 20 - shown_nodes)), "{text}");
        assert!(text.lines().any(|line| line.contains("remove default-abcde") && line.contains('…')), "{text}");
        let joined: String = text.lines().map(|line| line.trim_matches('"').trim_end()).collect();
        assert!(joined.contains(kubeconfig), "{text}");
        assert!(text.contains("61.7 s (p99)") && text.contains("q ends the demo"), "{text}");
    }

    #[test]
    fn texts_are_broken_at_blanks_and_whole_words_only_where_they_must_be() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefghij kl", 4), ["abcd", "efgh", "ij", "kl"]);
        assert_eq!(without_middle("default-x7k2f", 9), "defa…7k2f");
        assert_eq!(without_end("default", 7), "default");
        assert_eq!(without_end("default-x", 7), "defaul…");
    }

    #[test]
    fn keys_make_things_happen() {
        let press = |key| happening(&Event::Key(KeyCode::Char(key).into()));
        assert_eq!(press('d'), Some(Happening::Drift(None)));
        assert_eq!(press('e'), Some(Happening::Expiry(None)));
        assert_eq!(press('r'), Some(Happening::Reclaim(1)));
        assert_eq!(press('x'), None);
    }
}
