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
    let footer = if shown.summary.is_some() { 4 } else { 2 };
    let nodes = u16::try_from(shown.view.nodes.len()).unwrap_or(u16::MAX).saturating_add(3).max(8);
    let areas = Layout::vertical([
        Constraint::Length(4),
        Constraint::Max(nodes),
        Constraint::Min(5),
        Constraint::Length(footer),
    ])
    .split(frame.area());
    frame.render_widget(header(shown), areas[0]);
    frame.render_widget(table(shown), areas[1]);
    frame.render_widget(decisions(shown, areas[2]), areas[2]);
    frame.render_widget(bottom(shown), areas[3]);
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

fn table(shown: &Shown) -> Table<'_> {
    let head = ["NODE", "TYPE", "CAPACITY", "ZONE", "STATE", "PODS", "CPU", "MEMORY", "$/HOUR"];
    let widths = [
        Constraint::Length(16),
        Constraint::Length(14),
        Constraint::Length(10),
        Constraint::Length(11),
        Constraint::Length(8),
        Constraint::Length(4),
        Constraint::Length(17),
        Constraint::Length(17),
        Constraint::Length(8),
    ];
    let title = Row::new(head).style(Style::new().add_modifier(Modifier::BOLD));
    Table::new(shown.view.nodes.iter().map(row), widths).header(title).column_spacing(1)
}

fn row(node: &NodeRow) -> Row<'static> {
    let colour = match node.state {
        State::Planned | State::Booting => Color::Yellow,
        State::Joining => Color::Cyan,
        State::Ready => Color::Green,
        State::Leaving => Color::Red,
    };
    let price = if node.price.0 == 0 { String::new() } else { format!("{:.4}", node.price.dollars()) };
    Row::new(vec![
        Cell::from(node.claim.clone()),
        Cell::from(node.instance_type.clone()),
        Cell::from(node.capacity_type.clone()),
        Cell::from(node.zone.clone()),
        Cell::from(Span::styled(node.state.word(), Style::new().fg(colour))),
        Cell::from(node.pods.to_string()),
        Cell::from(bar(node.cpu)),
        Cell::from(bar(node.memory)),
        Cell::from(price),
    ])
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
    let room = usize::from(area.height.saturating_sub(2));
    let lines = shown.lines.iter().rev().take(room).rev().map(|line| {
        let style = match line.kind {
            LineKind::Step => Style::new().add_modifier(Modifier::BOLD),
            LineKind::Decision => Style::new().fg(Color::Magenta),
            LineKind::Node => Style::new(),
            LineKind::Pods => Style::new().fg(Color::Green),
        };
        let at = format!("{:>2}:{:02}  ", line.at.as_secs() / 60, line.at.as_secs() % 60);
        Line::from(vec![Span::styled(at, Style::new().fg(Color::DarkGray)), Span::styled(line.text.clone(), style)])
    });
    Paragraph::new(lines.collect::<Vec<_>>())
        .block(Block::default().borders(Borders::TOP).title("what was decided, and what came of it"))
}

fn bottom(shown: &Shown) -> Paragraph<'_> {
    let dim = Style::new().fg(Color::DarkGray);
    let mut lines: Vec<Line<'_>> = shown.summary.iter().flat_map(|text| text.lines()).map(Line::from).collect();
    lines.push(Line::styled(format!("{}   kubectl get nodes,nodeclaims,pods -A", shown.kubeconfig), dim));
    lines.push(Line::styled("d drift   e expiry   r spot reclaim   q ends the demo", dim));
    Paragraph::new(lines)
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
        stage.finish("1 nodes launched".to_owned());
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
            "1 nodes launched",
            "q ends the demo",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(stage.take_unread().is_empty());
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
