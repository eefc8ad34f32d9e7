//! The terminal: what is drawn, and the keys that end it. However a command ends, the terminal is as it
//! was before.

use std::io;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::Paragraph;
use tokio::sync::mpsc;

use crate::table::{Table, Tone};

/// So often the keyboard's thread looks whether anybody still listens.
const POLL: Duration = Duration::from_millis(100);
const KEYS_MAX: usize = 16;

/// The terminal, drawn on as a whole. Dropping it gives it back.
#[derive(Debug)]
pub struct Screen(DefaultTerminal);

/// What whoever sits there wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Enough.
    End,
    /// The size is another.
    Redraw,
}

/// What is drawn.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The first line.
    pub title: String,
    /// What went wrong, if anything.
    pub fault: Option<String>,
    /// One below the other.
    pub tables: Vec<Table>,
}

impl Screen {
    /// Takes the terminal.
    pub fn open() -> io::Result<Self> {
        Ok(Self(ratatui::try_init()?))
    }

    /// Draws.
    pub fn draw(&mut self, view: &View) -> io::Result<()> {
        self.0.draw(|frame| frame.render_widget(Paragraph::new(text(view)), frame.area()))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Wishes as they come, for as long as somebody listens.
pub fn wishes() -> mpsc::Receiver<Wish> {
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

fn text(view: &View) -> Text<'_> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut lines = vec![Line::styled(view.title.as_str(), bold)];
    let fault = view.fault.as_deref().unwrap_or_default();
    lines.push(Line::styled(fault, style(Tone::Hot)));
    for table in &view.tables {
        let spans = table.rows().map(|row| {
            row.into_iter().map(|value| Span::styled(value.text, style(value.tone))).collect::<Line<'_>>()
        });
        lines.extend(spans);
        lines.push(Line::default());
    }
    Text::from(lines)
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

    #[test]
    fn a_view_is_cut_to_the_screen() {
        let rates = Rates::between(None, &look(5, [1, 1], [1, 2, 3]));
        let view = View {
            title: "a node".to_owned(),
            fault: Some("it is gone".to_owned()),
            tables: vec![Table::of_shards(&rates), Table::of_cells(&rates, 2)],
        };
        let mut terminal = Terminal::new(TestBackend::new(30, 4)).expect("a screen");
        terminal
            .draw(|frame| frame.render_widget(Paragraph::new(text(&view)), frame.area()))
            .expect("a screen that takes it");
        terminal.backend().assert_buffer_lines_are(&[
            "a node",
            "it is gone",
            "shard  cpu  samples/s  refused",
        ]);
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
