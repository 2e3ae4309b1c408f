//! A live profile as a table in a terminal.
//!
//! ```text
//! Source ──profile──▶ Feed (a thread) ──▶ Screen (what is known, what is shown) ──▶ draw ──▶
//! terminal ▲ keys
//! ```
//!
//! - [`Screen`] is the state: the latest profile, the order, the filter, the selected row, the
//!   function shown in detail. It does not depend on a terminal: its inputs are keys and profiles.
//! - `draw` draws it on a ratatui frame; tests draw on a buffer.
//! - `history` keeps the durations of calls between one profile and the next, for the curve of a
//!   function's 99th percentile.
//! - `feed` fetches profiles on its own thread, so a program that does not answer blocks no key.
//!
//! The crate does not depend on where profiles come from: [`Source`] is a trait.

mod draw;
mod feed;
mod history;
mod keys;
mod screen;

pub use feed::Source;
pub use keys::Key;
pub use screen::{Screen, View};

use feed::Feed;
use ratatui::crossterm::event::{self, Event};
use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

/// The smallest terminal that the table fits into.
pub const LEAST_WIDTH: u16 = 40;
/// See [`LEAST_WIDTH`].
pub const LEAST_HEIGHT: u16 = 8;

/// The time after which pressed keys are read.
const LOOK: Duration = Duration::from_millis(50);
/// How often the screen is redrawn without a new profile, since it shows the profile's age.
const REDRAW: Duration = Duration::from_millis(500);

/// What helps where no table can be kept on the screen.
const ONCE: &str = "`fastinst ctl PID snapshot` prints the table once";

/// Checks that there is a terminal that the table fits into; the error gives the reason in one
/// line.
pub fn check() -> Result<(), String> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(format!("there is no terminal: {ONCE}"));
    }
    if std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
        return Err(format!("the terminal cannot move its cursor (TERM): {ONCE}"));
    }
    match ratatui::crossterm::terminal::size() {
        Ok((width, height)) if width < LEAST_WIDTH || height < LEAST_HEIGHT => Err(format!(
            "the terminal has {width} columns and {height} lines: the table takes {LEAST_WIDTH} \
             and {LEAST_HEIGHT}; enlarge it, or {ONCE}"
        )),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("the terminal's size is unknown: {error}")),
    }
}

/// Shows profiles of a source until the user quits or the program ends. Returns the last message of
/// the source, if it has one.
pub fn show(
    source: impl Source + 'static,
    title: String,
    interval: Duration,
    colors: bool,
) -> io::Result<Option<String>> {
    // Without colours the screen draws none. crossterm must not apply NO_COLOR itself: what it then
    // writes instead of a colour also ends bold and reversed type.
    ratatui::crossterm::style::force_color_output(true);
    let mut terminal = ratatui::try_init()?;
    let result = follow(&mut terminal, source, Screen::new(title, colors), interval);
    ratatui::restore();
    result
}

fn follow(
    terminal: &mut ratatui::DefaultTerminal,
    source: impl Source + 'static,
    mut screen: Screen,
    interval: Duration,
) -> io::Result<Option<String>> {
    let feed = Feed::begin(source, interval)?;
    let mut drawn: Option<Instant> = None;
    loop {
        let mut is_new = drawn.is_none_or(|drawn| drawn.elapsed() >= REDRAW);
        while let Some(news) = feed.news() {
            screen.take(news);
            is_new = true;
        }
        if is_new {
            terminal.draw(|frame| draw::screen(&mut screen, frame))?;
            drawn = Some(Instant::now());
        }
        if !event::poll(LOOK)? {
            continue;
        }
        match event::read()? {
            Event::Key(key) => {
                if let Some(key) = Key::of(&key)
                    && !screen.press(key)
                {
                    return Ok(screen.last_message());
                }
            }
            Event::Resize(..) => {}
            _ => continue,
        }
        feed.pause(screen.is_paused());
        drawn = None;
    }
}
