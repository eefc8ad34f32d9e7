//! The terminal: what is drawn, and the keys that end it. However a command ends, the terminal is as it
//! was before.

use std::io;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::Paragraph;
use ratatui::{DefaultTerminal, Frame};
use tokio::sync::mpsc;

use crate::table::{Table, Tone};

/// So often the keyboard's thread looks whether anybody still listens.
const POLL: Duration = Duration::from_millis(100);
const KEYS_MAX: usize = 16;

/// The terminal, drawn on as a whole. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Screen(DefaultTerminal);

/// What whoever sits there wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// Enough.
    End,
    /// The size is another.
    Redraw,
}

/// What is drawn.
#[derive(Debug, Clone, Default)]
pub(super) struct ScreenView {
    /// The first line.
    pub title: String,
    /// What went wrong, if anything.
    pub fault: Option<String>,
    /// One below the other.
    pub tables: Vec<Table>,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self(ratatui::try_init()?))
    }

    /// Draws.
    pub(super) fn draw(&mut self, view: &ScreenView) -> io::Result<()> {
        self.0.draw(|frame| draw(view, frame))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Wishes as they come, for as long as somebody listens.
pub(super) fn wishes() -> mpsc::Receiver<Wish> {
    let (sender, wishes) = mpsc::channel(KEYS_MAX);
    tokio::task::spawn_blocking(move || {
        while !sender.is_closed() {
            let wish = match event::poll(POLL).and_then(|is_there| is_there.then(event::read).transpose()) {
                Ok(event) => event.and_then(|event| wish(&event)),
                // Without a keyboard there is still Ctrl-C.
                Err(_) => return,
            };
            if wish.is_some_and(|wish| sender.blocking_send(wish).is_err()) {
                return;
            }
        }
    });
    wishes
}

fn wish(event: &Event) -> Option<Wish> {
    match event {
        Event::Key(KeyEvent { kind: KeyEventKind::Press, code, modifiers, .. }) => match code {
            KeyCode::Char('q') | KeyCode::Esc => Some(Wish::End),
            // A terminal that is read key by key makes no signal of it.
            KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Some(Wish::End),
            _ => None,
        },
        Event::Resize(..) => Some(Wish::Redraw),
        _ => None,
    }
}

/// The last line is the keys', whatever there is above.
fn draw(view: &ScreenView, frame: &mut Frame<'_>) {
    let [body, foot] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(frame.area());
    let (mut tables, mut left_out) = (view.tables.clone(), Vec::new());
    for table in &mut tables {
        left_out.extend(table.narrow(body.width.into()));
    }
    frame.render_widget(Paragraph::new(text(view, &tables)), body);
    frame.render_widget(Paragraph::new(keys(&left_out)), foot);
}

fn text(view: &ScreenView, tables: &[Table]) -> Text<'static> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut lines = vec![Line::styled(view.title.clone(), bold)];
    let fault = view.fault.clone().unwrap_or_default();
    lines.push(Line::styled(fault, style(Tone::Hot)));
    for table in tables {
        let spans = table.rows().map(|row| {
            row.into_iter().map(|value| Span::styled(value.text, style(value.tone))).collect::<Line<'_>>()
        });
        lines.extend(spans);
        lines.push(Line::default());
    }
    Text::from(lines)
}

/// What can be pressed, and what a wider screen would show.
fn keys(left_out: &[&str]) -> Line<'static> {
    let key = Style::new().add_modifier(Modifier::REVERSED);
    let mut spans = vec![Span::styled(" q ", key), Span::raw(" quit")];
    if !left_out.is_empty() {
        let words = format!("   too narrow for: {}", left_out.join(", "));
        spans.push(Span::styled(words, style(Tone::Head)));
    }
    Line::from(spans)
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Head => Style::new().add_modifier(Modifier::DIM),
        Tone::Plain => Style::new(),
        Tone::Warm => Style::new().fg(Color::Yellow),
        Tone::Hot => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::rates::Rates;
    use super::super::rates::tests::look;
    use super::*;

    fn check(width: u16, height: u16, expected: &[&str]) {
        let rates = Rates::between(None, &look(5, [1, 1], [1, 2, 3]));
        let view = ScreenView {
            title: "a node".to_owned(),
            fault: Some("it is gone".to_owned()),
            tables: vec![Table::of_shards(&rates), Table::of_cells(&rates, 2)],
        };
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
        terminal.draw(|frame| draw(&view, frame)).expect("a screen that takes it");
        terminal.backend().assert_buffer_lines_are(expected);
    }

    #[test]
    fn a_narrow_screen_leaves_columns_out_and_says_which() {
        let keys = " q  quit   too narrow for: cel";
        check(30, 4, &["a node", "it is gone", "shard  samples/s  busy", keys]);
        check(1, 1, &[""]);
    }

    #[test]
    fn a_wide_screen_shows_every_column_and_the_keys_at_its_foot() {
        let head = "shard  cpu  samples/s  refused/s  busy  series  new/s  commits/s  queued             memory        WAL  \
                    cells";
        let first = "    0    0          –          –     –     100      –          –       3   64.00 MiB (25 %)   5.00 GiB    \
                     512";
        check(130, 5, &["a node", "it is gone", head, first, " q  quit"]);
    }

    trait StartsWith {
        fn assert_buffer_lines_are(&self, expected: &[&str]);
    }

    impl StartsWith for TestBackend {
        fn assert_buffer_lines_are(&self, expected: &[&str]) {
            let buffer = self.buffer();
            for (y, expected) in (0..).zip(expected) {
                let line: String =
                    (0..buffer.area.width).map(|x| buffer[(x, y)].symbol().to_owned()).collect();
                assert_eq!(line.trim_end(), *expected);
            }
        }
    }

    #[test]
    fn q_escape_and_ctrl_c_end_it() {
        let check = |code, modifiers, expected| {
            assert_eq!(wish(&Event::Key(KeyEvent::new(code, modifiers))), expected);
        };
        check(KeyCode::Char('q'), KeyModifiers::NONE, Some(Wish::End));
        check(KeyCode::Esc, KeyModifiers::NONE, Some(Wish::End));
        check(KeyCode::Char('c'), KeyModifiers::CONTROL, Some(Wish::End));
        check(KeyCode::Char('c'), KeyModifiers::NONE, None);
        assert_eq!(wish(&Event::Resize(1, 1)), Some(Wish::Redraw));
    }
}
