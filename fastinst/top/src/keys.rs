//! The keys that the screen handles.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A letter, digit or sign.
    Char(char),
    /// Return.
    Enter,
    /// Escape.
    Escape,
    /// Deletes the character before the cursor.
    Backspace,
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// The column to the left.
    Left,
    /// The column to the right.
    Right,
    /// A screen up.
    PageUp,
    /// A screen down.
    PageDown,
    /// The first row.
    Home,
    /// The last row.
    End,
    /// Ctrl-C: quits from every view.
    Interrupt,
}

impl Key {
    pub(crate) fn of(event: &KeyEvent) -> Option<Self> {
        if event.kind == KeyEventKind::Release {
            return None;
        }
        Some(match event.code {
            KeyCode::Char('c') if event.modifiers.contains(KeyModifiers::CONTROL) => {
                Self::Interrupt
            }
            KeyCode::Char(_) if event.modifiers.contains(KeyModifiers::CONTROL) => return None,
            KeyCode::Char(sign) => Self::Char(sign),
            KeyCode::Enter => Self::Enter,
            KeyCode::Esc => Self::Escape,
            KeyCode::Backspace => Self::Backspace,
            KeyCode::Up => Self::Up,
            KeyCode::Down => Self::Down,
            KeyCode::Left => Self::Left,
            KeyCode::Right => Self::Right,
            KeyCode::PageUp => Self::PageUp,
            KeyCode::PageDown => Self::PageDown,
            KeyCode::Home => Self::Home,
            KeyCode::End => Self::End,
            _ => return None,
        })
    }
}
