//! The state of the screen, and what is shown of it.

use crate::feed::News;
use crate::history::History;
use crate::keys::Key;
use profiler::{FuncId, Function, Grid, Profile, Sort};
use std::time::Instant;

/// The view that fills the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// All functions.
    Table,
    /// One function.
    Function(FuncId),
    /// The keys.
    Help,
}

/// The order of columns by which rows can be sorted.
const SORTS: [Sort; 6] = [Sort::Own, Sort::Total, Sort::Calls, Sort::P99, Sort::Max, Sort::Name];

/// The state of the screen.
#[derive(Debug)]
pub struct Screen {
    pub(crate) title: String,
    pub(crate) has_colors: bool,
    pub(crate) profile: Option<Box<Profile>>,
    pub(crate) history: History,
    /// The time at which the profile arrived.
    pub(crate) came: Option<Instant>,
    /// The message of the source.
    pub(crate) message: Option<String>,
    is_over: bool,
    view: View,
    sort: usize,
    filter: String,
    is_typing: bool,
    is_paused: bool,
    /// The selected row, as a function, so that it stays selected when rows move.
    chosen: Option<FuncId>,
    /// The first visible row; in a function's view, its first visible line.
    pub(crate) first: usize,
    /// The number of rows that fit, at the last drawing.
    pub(crate) room: usize,
    /// The functions of the rows, at the last drawing.
    pub(crate) order: Vec<FuncId>,
}

impl Screen {
    /// A screen with nothing to show yet; with colours, if the terminal should have them.
    pub fn new(title: String, has_colors: bool) -> Self {
        Self {
            title,
            has_colors,
            profile: None,
            history: History::default(),
            came: None,
            message: None,
            is_over: false,
            view: View::Table,
            sort: 0,
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            chosen: None,
            first: 0,
            room: 1,
            order: Vec::new(),
        }
    }

    pub(crate) fn take(&mut self, news: News) {
        match news {
            News::Profile(profile) if !self.is_paused => {
                if let Some(before) = &self.profile {
                    self.history.add(before, &profile);
                }
                (self.profile, self.came, self.message) =
                    (Some(profile), Some(Instant::now()), None);
            }
            News::Profile(_) => {}
            News::None { why, is_over } => {
                self.message = Some(why);
                self.is_over = is_over;
            }
        }
    }

    /// Handles a key. Returns whether the screen stays open.
    pub fn press(&mut self, key: Key) -> bool {
        if key == Key::Interrupt {
            return false;
        }
        if self.is_typing {
            self.type_filter(key);
            return true;
        }
        match (self.view, key) {
            (View::Table, Key::Char('q')) => return false,
            (View::Table, Key::Enter) => {
                if let Some(function) = self.chosen() {
                    self.look_at(View::Function(function));
                }
            }
            (View::Table, Key::Escape) => self.filter.clear(),
            (_, Key::Escape | Key::Enter | Key::Char('q')) => self.look_at(View::Table),
            (View::Table, Key::Char('/')) => self.is_typing = true,
            (View::Table, Key::Right | Key::Char('s' | '>')) => self.sort_by(1),
            (View::Table, Key::Left | Key::Char('<')) => self.sort_by(SORTS.len() - 1),
            (_, Key::Char('p' | ' ')) => self.is_paused = !self.is_paused,
            (_, Key::Char('?' | 'h')) => self.look_at(View::Help),
            (_, Key::Up | Key::Char('k')) => self.go(-1),
            (_, Key::Down | Key::Char('j')) => self.go(1),
            (_, Key::PageUp) => self.go(-(self.room as isize)),
            (_, Key::PageDown) => self.go(self.room as isize),
            (_, Key::Home) => self.go(isize::MIN),
            (_, Key::End) => self.go(isize::MAX),
            _ => {}
        }
        true
    }

    fn type_filter(&mut self, key: Key) {
        match key {
            Key::Enter => self.is_typing = false,
            Key::Escape => {
                self.is_typing = false;
                self.filter.clear();
            }
            Key::Backspace => drop(self.filter.pop()),
            Key::Char(sign) => self.filter.push(sign),
            _ => {}
        }
        self.first = 0;
    }

    fn look_at(&mut self, view: View) {
        (self.view, self.first) = (view, 0);
    }

    fn sort_by(&mut self, steps: usize) {
        self.sort = (self.sort + steps) % SORTS.len();
        (self.chosen, self.first) = (None, 0);
    }

    /// Moves down by this many rows.
    fn go(&mut self, rows: isize) {
        if self.view != View::Table {
            self.first = self.first.saturating_add_signed(rows);
            return;
        }
        let last = self.order.len().saturating_sub(1);
        let at = self.position().saturating_add_signed(rows).min(last);
        self.chosen = self.order.get(at).copied();
    }

    /// The position of the selected row in the last drawing.
    pub(crate) fn position(&self) -> usize {
        let chosen = self.chosen.and_then(|id| self.order.iter().position(|known| *known == id));
        chosen.unwrap_or(0)
    }

    /// The selected function; the first one if none was selected.
    fn chosen(&self) -> Option<FuncId> {
        self.order.get(self.position()).copied()
    }

    /// The current view.
    pub fn view(&self) -> View {
        self.view
    }

    /// The column by which rows are sorted.
    pub fn sort(&self) -> Sort {
        SORTS[self.sort]
    }

    /// The text that functions' names must contain to be shown.
    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// Whether the user is typing the filter.
    pub fn is_typing(&self) -> bool {
        self.is_typing
    }

    /// Whether the user has paused the profiles (key p).
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Whether no further profile will come.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The reason why no further profile will come.
    pub fn last_message(&self) -> Option<String> {
        self.message.clone().filter(|_| self.is_over)
    }

    /// The rows to show, in columns of this width.
    pub(crate) fn grid(&self, width: usize) -> Grid {
        let Some(profile) = &self.profile else { return Grid::default() };
        let wanted = self.filter.to_lowercase();
        let shows = |function: &Function| {
            wanted.is_empty() || function.label.name.to_lowercase().contains(&wanted)
        };
        profile.grid(self.sort(), width, shows)
    }

    /// A function of the latest profile.
    pub(crate) fn function(&self, id: FuncId) -> Option<&Function> {
        self.profile.as_ref()?.functions.iter().find(|function| function.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::profiles;

    fn screen() -> Screen {
        let mut screen = Screen::new("app".to_owned(), true);
        let all = profiles(&[&[(1, 1000), (2, 50_000), (3, 20)], &[(1, 2000), (3, 20)]]);
        for profile in all {
            screen.take(News::Profile(Box::new(profile)));
        }
        screen.order = screen.grid(80).rows.iter().filter_map(|row| row.function).collect();
        screen
    }

    fn names(screen: &Screen) -> Vec<&str> {
        let name = |id: &FuncId| screen.function(*id).map(|one| one.label.name.as_str());
        screen.order.iter().filter_map(name).collect()
    }

    fn press(screen: &mut Screen, keys: &[Key]) {
        for key in keys {
            assert!(screen.press(*key), "{key:?}");
            screen.order = screen.grid(80).rows.iter().filter_map(|row| row.function).collect();
        }
    }

    fn word(text: &str) -> Vec<Key> {
        text.chars().map(Key::Char).collect()
    }

    #[test]
    fn rows_are_sorted_by_the_column_that_keys_choose() {
        let mut screen = screen();
        assert_eq!(screen.sort(), Sort::Own);
        for sort in [Sort::Total, Sort::Calls, Sort::P99, Sort::Max, Sort::Name, Sort::Own] {
            press(&mut screen, &[Key::Char('s')]);
            assert_eq!(screen.sort(), sort);
        }
        press(&mut screen, &[Key::Left]);
        assert_eq!(names(&screen), ["hash", "parse", "serve"]);
        press(&mut screen, &[Key::Left]);
        assert_eq!(names(&screen)[0], "serve", "the longest call");
    }

    #[test]
    fn a_filter_leaves_names_out_and_its_keys_are_no_commands() {
        let mut screen = screen();
        press(&mut screen, &word("/Sq"));
        assert!(screen.is_typing() && screen.filter() == "Sq" && names(&screen).is_empty());
        press(&mut screen, &[Key::Backspace, Key::Enter]);
        assert_eq!((screen.is_typing(), names(&screen).len()), (false, 3));
        press(&mut screen, &word("/e"));
        press(&mut screen, &[Key::Backspace]);
        press(&mut screen, &word("er"));
        press(&mut screen, &[Key::Enter]);
        assert_eq!(names(&screen), ["serve"]);
        press(&mut screen, &[Key::Escape]);
        assert_eq!((screen.filter(), names(&screen).len()), ("", 3));
        press(&mut screen, &word("/SERV"));
        assert_eq!(names(&screen), ["serve"]);
        press(&mut screen, &[Key::Escape]);
        assert!(!screen.is_typing() && screen.filter().is_empty());
    }

    #[test]
    fn a_chosen_function_is_looked_at_and_stays_chosen() {
        let mut screen = screen();
        screen.press(Key::End);
        let last = screen.position();
        assert_eq!(last, 2);
        screen.press(Key::Down);
        assert_eq!(screen.position(), 2, "no further");
        let chosen = screen.order[2];
        screen.order.rotate_right(1);
        assert_eq!(screen.position(), 0, "it has another place");
        screen.press(Key::Enter);
        assert_eq!(screen.view(), View::Function(chosen));
        screen.press(Key::Down);
        assert_eq!(screen.first, 1, "its text is scrolled");
        screen.press(Key::Escape);
        assert_eq!(screen.view(), View::Table);
        screen.press(Key::Home);
        assert_eq!(screen.position(), 0);
        screen.press(Key::PageDown);
        assert_eq!(screen.position(), 1, "as many as fit");
        screen.press(Key::PageUp);
        assert_eq!(screen.position(), 0);
    }

    #[test]
    fn while_it_is_paused_nothing_changes() {
        let mut screen = screen();
        let seconds = |screen: &Screen| screen.profile.as_ref().unwrap().header.seconds;
        screen.press(Key::Char('p'));
        let [next] = &profiles(&[&[(1, 10)]])[..] else { panic!() };
        screen.take(News::Profile(Box::new(next.clone())));
        assert_eq!((screen.is_paused(), seconds(&screen)), (true, 2.0));
        screen.press(Key::Char(' '));
        screen.take(News::Profile(Box::new(next.clone())));
        assert_eq!((screen.is_paused(), seconds(&screen)), (false, 1.0));
    }

    #[test]
    fn the_end_is_told_and_asked_for() {
        let mut screen = screen();
        screen.press(Key::Char('?'));
        assert_eq!(screen.view(), View::Help);
        assert!(screen.press(Key::Char('q')), "back to the table");
        assert!(!screen.press(Key::Char('q')));
        screen.press(Key::Char('/'));
        assert!(!screen.press(Key::Interrupt), "wherever it is pressed");
        screen.take(News::None { why: "not now".to_owned(), is_over: false });
        assert_eq!(screen.last_message(), None);
        screen.take(News::None { why: "process 7 has ended".to_owned(), is_over: true });
        assert_eq!(screen.last_message().as_deref(), Some("process 7 has ended"));
        assert!(screen.profile.is_some(), "what was known stays");
    }
}
