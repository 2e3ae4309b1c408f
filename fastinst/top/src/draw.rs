//! Draws the screen.

use crate::screen::{Screen, View};
use crate::{LEAST_HEIGHT, LEAST_WIDTH};
use profiler::human::several;
use profiler::{FuncId, Function, Grid, GridColumn, GridRow, HistogramOptions, Sort, width_of};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};

const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);

const TABLE_KEYS: &str = "q quit  ↑↓ choose  Enter look at  s sort  / filter  p pause  ? help";
const FUNCTION_KEYS: &str = "Esc back  ↑↓ scroll  p pause  ? help";
const HELP: &str = "\
q, Ctrl-C        quit
↑ ↓, k j         choose a function; PgUp, PgDn, Home, End
Enter            its latencies, callers and slowest calls, and a curve of its p99
Esc              back; removes the filter
s, ← →           sort by self, total, calls, p99, max, name
/                show functions only whose names contain a text
p, blank         pause: the screen stays as it is
?                this page

self %           share of CPU time, [system] and [unknown] included
total            CPU time, callees included
p50, p99, max    wall-clock times of single calls
calls/s          since the profile before; of an estimate, since the one before

~ an estimate, ? uncertain by more than its value, ≤ at most, ≥ at least, < less
than can be measured, - nothing is known";

/// Draws the whole screen.
pub(crate) fn screen(screen: &mut Screen, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < LEAST_WIDTH || area.height < LEAST_HEIGHT {
        frame.render_widget(Paragraph::new("terminal too small"), area);
        return;
    }
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)])
            .areas(area);
    frame.render_widget(Paragraph::new(header(screen, head.width as usize)), head);
    match screen.view() {
        View::Table => table(screen, frame, body),
        View::Function(id) => function(screen, id, frame, body),
        View::Help => {
            let text = Paragraph::new(HELP).scroll((screen.first as u16, 0));
            frame.render_widget(text, body);
        }
    }
    frame.render_widget(Paragraph::new(footer(screen)), foot);
    if !screen.has_colors {
        for cell in &mut frame.buffer_mut().content {
            (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
        }
    }
}

/// The header: the program, and its state.
fn header(screen: &Screen, width: usize) -> Vec<Line<'static>> {
    let age = screen.came.map_or(0.0, |came| came.elapsed().as_secs_f64());
    let state = match (&screen.profile, screen.is_paused()) {
        (None, _) => "waiting for the first profile".to_owned(),
        (_, true) => "PAUSED".to_owned(),
        (_, _) if screen.is_over() => "ended".to_owned(),
        (_, _) if age > 3.0 => format!("{age:.0} s old"),
        _ => String::new(),
    };
    let room = width.saturating_sub(width_of(&state) + 2);
    let title = shortened(&screen.title, room);
    let gap = width.saturating_sub(width_of(&title) + width_of(&state));
    let first = Line::from(vec![
        Span::styled(title, BOLD),
        Span::raw(" ".repeat(gap)),
        Span::styled(state, Style::new().fg(Color::Yellow)),
    ]);
    let second = screen.profile.as_ref().map_or_else(String::new, |profile| {
        let header = &profile.header;
        let mut text = format!(
            "{:.1} s, {:.2} s CPU, {} called",
            header.seconds,
            header.processor,
            several(profile.functions.len() as u64, "function")
        );
        if header.threads > 0 {
            text += &format!(", {}", several(header.threads.into(), "thread"));
        }
        text
    });
    vec![first, Line::styled(second, DIM)]
}

fn footer(screen: &Screen) -> Line<'static> {
    if screen.is_typing() {
        return Line::from(format!("/{}▏  Enter keeps it, Esc removes it", screen.filter()));
    }
    if let Some(message) = &screen.message {
        return Line::styled(message.clone(), Style::new().fg(Color::Red));
    }
    let keys = match screen.view() {
        View::Table => TABLE_KEYS,
        View::Function(_) | View::Help => FUNCTION_KEYS,
    };
    let filter = match screen.filter() {
        "" => String::new(),
        filter => format!("/{filter}  "),
    };
    Line::styled(format!("{filter}{keys}"), DIM)
}

/// The width of the column for calls per second, which is inserted beside the table's own columns.
const RATE: usize = 8;
const RATE_TITLE: &str = "calls/s";

fn table(screen: &mut Screen, frame: &mut Frame<'_>, area: Rect) {
    let width = area.width as usize;
    let has_rates = width >= 72;
    let grid = screen.grid(width - if has_rates { RATE + 2 } else { 0 });
    screen.order = grid.rows.iter().filter_map(|row| row.function).collect();
    screen.room = (area.height as usize).saturating_sub(1).max(1);
    let chosen = screen.order.get(screen.position()).copied();
    let at = grid.rows.iter().position(|row| row.function == chosen).unwrap_or(0);
    let last_first = grid.rows.len().saturating_sub(screen.room);
    screen.first = screen.first.clamp(at.saturating_sub(screen.room - 1), at).min(last_first);
    let mut lines = vec![titles(&grid, screen.sort(), has_rates)];
    for row in grid.rows.iter().skip(screen.first).take(screen.room) {
        let rate = row.function.and_then(|id| screen.history.rate(id));
        let line = line(&grid, row, rate.filter(|_| has_rates));
        let is_chosen = row.function.is_some() && row.function == chosen;
        lines.push(if is_chosen { line.patch_style(CHOSEN) } else { line });
    }
    if grid.rows.is_empty() {
        let why = match (&screen.profile, screen.filter()) {
            (None, _) => "",
            (Some(_), "") => "no function has been called yet",
            (Some(_), _) => "no function's name contains this",
        };
        lines.push(Line::styled(why, DIM));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn titles(grid: &Grid, sort: Sort, has_rates: bool) -> Line<'static> {
    let is_sorted = |column: &GridColumn| match sort {
        Sort::Own => column.title == "self %",
        Sort::Name => column.title == "function",
        other => column.title == other.name(),
    };
    let mut spans = Vec::new();
    for column in &grid.columns {
        let style = if is_sorted(column) { BOLD.fg(Color::Cyan) } else { BOLD };
        spans.push(Span::styled(set(column.title, column.width, column.is_left), style));
        spans.push(Span::raw("  "));
    }
    if has_rates {
        spans.push(Span::styled(format!("{RATE_TITLE:>RATE$}"), BOLD));
    }
    Line::from(spans)
}

fn line(grid: &Grid, row: &GridRow, rate: Option<f64>) -> Line<'static> {
    let mut spans = Vec::new();
    for (column, cell) in grid.columns.iter().zip(&row.cells) {
        let style = match (column.title, row.share) {
            ("self %", Some(share)) if share >= 0.2 => Style::new().fg(Color::Red),
            ("self %", Some(share)) if share >= 0.05 => Style::new().fg(Color::Yellow),
            _ if row.function.is_none() => DIM,
            _ => Style::new(),
        };
        spans.push(Span::styled(set(cell, column.width, column.is_left), style));
        spans.push(Span::raw("  "));
    }
    if let Some(rate) = rate {
        spans.push(Span::raw(format!("{:>RATE$}", count(rate))));
    }
    Line::from(spans)
}

/// One function: its curve, its callers, its histogram and its slowest calls.
fn function(screen: &mut Screen, id: FuncId, frame: &mut Frame<'_>, area: Rect) {
    let width = area.width as usize;
    let curve = screen.history.curve(id, width.saturating_sub(2));
    let height = if curve.is_empty() { 0 } else { 4.min(area.height / 3) };
    let [above, below] =
        Layout::vertical([Constraint::Length(height), Constraint::Min(1)]).areas(area);
    let (Some(profile), Some(function)) = (&screen.profile, screen.function(id)) else {
        let why = "this function is no longer in the profile";
        frame.render_widget(Paragraph::new(why), area);
        return;
    };
    let options = HistogramOptions { width, slowest: 5, color: false };
    let mut text = profile.histogram_of(function, &options);
    text += &callers(&profile.callers_of(function), function);
    let lines = text.lines().count();
    if height > 1 {
        let most = curve.iter().copied().max().unwrap_or(0);
        let [title, drawn] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(above);
        let text = format!("p99 of the calls since the profile before, up to {}", time(most));
        frame.render_widget(Paragraph::new(Line::styled(text, DIM)), title);
        frame.render_widget(Sparkline::default().data(&curve).max(most.max(1)), drawn);
    }
    screen.room = below.height as usize;
    screen.first = screen.first.min(lines.saturating_sub(screen.room));
    frame.render_widget(Paragraph::new(text).scroll((screen.first as u16, 0)), below);
}

fn callers(callers: &[(String, f64)], function: &Function) -> String {
    const MOST: usize = 12;
    if callers.is_empty() || function.samples == 0 {
        return "\nNo caller is known.\n".to_owned();
    }
    let mut text = "\nCallers, by the time of timed calls:\n".to_owned();
    for (name, share) in callers.iter().take(MOST) {
        text += &format!("  {:>6}  {name}\n", format!("{:.1}%", 100.0 * share));
    }
    if callers.len() > MOST {
        text += &format!("  … and {} more\n", callers.len() - MOST);
    }
    text
}

/// A cell in its column.
fn set(text: &str, width: usize, is_left: bool) -> String {
    let blank = " ".repeat(width.saturating_sub(width_of(text)));
    if is_left { format!("{text}{blank}") } else { format!("{blank}{text}") }
}

fn shortened(text: &str, room: usize) -> String {
    if width_of(text) <= room {
        return text.to_owned();
    }
    text.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

fn count(value: f64) -> String {
    profiler::human::count(value)
}

fn time(nanoseconds: u64) -> String {
    profiler::human::time(nanoseconds as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::News;
    use crate::history::tests::profiles;
    use crate::keys::Key;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| super::screen(screen, frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| row(y).trim_end().to_owned()).collect()
    }

    fn example() -> Screen {
        let mut screen = Screen::new("./app --serve, process 4711".to_owned(), true);
        let calls: &[(u32, u64)] = &[(1, 1000), (2, 50_000), (3, 20), (4, 60_000)];
        for profile in profiles(&[calls, &[(1, 9000)], &[(1, 3000), (3, 30)]]) {
            screen.take(News::Profile(Box::new(profile)));
        }
        screen
    }

    #[test]
    fn without_colours_the_chosen_row_is_still_reversed() {
        let styles = |has_colors| {
            let mut screen = example();
            screen.has_colors = has_colors;
            let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
            terminal.draw(|frame| super::screen(&mut screen, frame)).unwrap();
            let cells = &terminal.backend().buffer().content;
            let is_colored = cells.iter().any(|cell| cell.fg != Color::Reset);
            let is_reversed = |cell: &ratatui::buffer::Cell| {
                cell.modifier.contains(Modifier::REVERSED) && cell.bg == Color::Reset
            };
            (is_colored, cells.iter().any(is_reversed))
        };
        assert_eq!((styles(true), styles(false)), ((true, true), (false, true)));
    }

    fn says(lines: &[String], text: &str) -> bool {
        lines.iter().any(|line| line.contains(text))
    }

    #[test]
    fn a_table_fits_into_80_columns_and_24_lines() {
        let lines = drawn(&mut example(), 80, 24);
        assert!(lines[0].starts_with("./app --serve, process 4711"), "{lines:#?}");
        assert!(lines[1].contains("4 functions called"), "{lines:#?}");
        assert!(lines[2].contains("function") && lines[2].ends_with("calls/s"), "{lines:#?}");
        for name in ["parse", "serve", "hash", "main"] {
            assert!(says(&lines, name), "{name}: {lines:#?}");
        }
        assert!(lines[23].starts_with("q quit"), "{lines:#?}");
        let parse = lines.iter().find(|line| line.contains("parse")).unwrap();
        assert!(parse.ends_with(" 1"), "calls a second: {parse}");
    }

    #[test]
    fn every_size_is_drawn_and_one_that_is_too_small_says_so() {
        for (width, height) in [(1, 1), (20, 24), (40, 8), (41, 9), (79, 10), (200, 60)] {
            let mut screen = example();
            let lines = drawn(&mut screen, width, height);
            let is_small = width < LEAST_WIDTH || height < LEAST_HEIGHT;
            assert_eq!(says(&lines, "function"), !is_small, "{width}x{height}: {lines:#?}");
            screen.press(Key::Enter);
            drawn(&mut screen, width, height);
            screen.press(Key::Char('?'));
            drawn(&mut screen, width, height);
        }
        assert_eq!(drawn(&mut example(), 20, 10)[0], "terminal too small");
    }

    #[test]
    fn a_function_is_shown_with_its_histogram_callers_slowest_calls_and_curve() {
        let mut screen = example();
        screen.press(Key::Char('/'));
        assert!("parse".chars().all(|sign| screen.press(Key::Char(sign))));
        screen.press(Key::Enter);
        let lines = drawn(&mut screen, 80, 60);
        assert!(says(&lines, "/parse  q quit") && !says(&lines, "serve  "), "{lines:#?}");
        screen.press(Key::Enter);
        let lines = drawn(&mut screen, 80, 60);
        for text in [
            "p99 of the calls since the profile before, up to 9.",
            "3 calls, all timed",
            "Slowest calls:",
            "thread 7",
            "Callers, by the time of timed calls:",
            "100.0%  main",
            "Esc back",
        ] {
            assert!(says(&lines, text), "{text}: {lines:#?}");
        }
        assert!(says(&lines, "█"), "{lines:#?}");
        // Lines that do not fit are reached by scrolling.
        screen.press(Key::End);
        let lines = drawn(&mut screen, 80, 16);
        assert!(says(&lines, "100.0%  main"), "{lines:#?}");
    }

    #[test]
    fn what_the_source_says_is_on_the_last_line_and_what_was_known_stays() {
        let mut screen = example();
        screen.take(News::None { why: "process 4711 has ended".to_owned(), is_over: true });
        let lines = drawn(&mut screen, 80, 24);
        assert_eq!(lines[23], "process 4711 has ended");
        assert!(lines[0].ends_with("ended") && says(&lines, "parse"), "{lines:#?}");
        let mut empty = Screen::new("app".to_owned(), true);
        assert!(drawn(&mut empty, 80, 24)[0].ends_with("waiting for the first profile"));
        screen.press(Key::Char('/'));
        assert!(drawn(&mut screen, 80, 24)[23].starts_with("/▏"));
        screen.press(Key::Char('x'));
        screen.press(Key::Char('x'));
        assert!(says(&drawn(&mut screen, 80, 24), "no function's name contains this"));
    }

    #[test]
    fn the_chosen_row_is_always_on_the_screen() {
        let mut screen = example();
        drawn(&mut screen, 80, 8);
        screen.press(Key::End);
        let lines = drawn(&mut screen, 80, 8);
        let last = screen.order.last().copied().unwrap();
        let name = screen.function(last).unwrap().label.name.clone();
        assert!(says(&lines, &name), "{name}: {lines:#?}");
        screen.press(Key::Home);
        let name = screen.function(screen.order[0]).unwrap().label.name.clone();
        assert!(says(&drawn(&mut screen, 80, 8), &name));
    }
}
