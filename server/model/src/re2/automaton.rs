//! A compiled expression as an automaton that is walked byte by byte. Its states are made as texts
//! need them and kept in bounded memory, so a step costs at most what the compiled form is long,
//! whatever the text, and a walk can stop between any two bytes.

use regex_automata::Anchored;
use regex_automata::MatchKind;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::start;
use regex_automata::util::syntax;

use super::ExpressionErrorKind;

/// States that were made are kept within so many bytes, where the automaton needs no more to walk at all.
const KEPT_BYTES_MIN: usize = 256 << 10;

/// A step that makes a new state looks at all of the compiled form: so many bytes of it are looked at,
/// over all steps, between two looks at the clock.
const BYTES_PER_LOOK: usize = 64 << 10;

/// Steps between two looks at the clock at most.
const STEPS_PER_LOOK_MAX: usize = 4096;

/// A compiled expression.
#[derive(Debug)]
pub(super) struct Automaton {
    dfa: DFA,
    compiled_bytes: usize,
    kept_bytes: usize,
}

/// The states that searches of one expression have made so far.
#[derive(Debug)]
pub struct SearchMemory(Option<Cache>);

/// Where a search in a text is.
#[derive(Debug, Default)]
pub struct Search {
    state: Option<LazyStateID>,
    at: usize,
}

impl SearchMemory {
    /// Of an expression that needs none.
    pub(super) fn none() -> Self {
        Self(None)
    }
}

impl Automaton {
    /// Compiles an expression in Rust's syntax within so many bytes.
    pub(super) fn compile(expression: &str, bytes_max: usize) -> Result<Self, ExpressionErrorKind> {
        let syntax = syntax::Config::new().utf8(false).dot_matches_new_line(true);
        let hir = syntax::parse_with(expression, &syntax)
            .map_err(|error| ExpressionErrorKind::Syntax(last_line(&error.to_string())))?;
        let config = thompson::Config::new()
            .utf8(false)
            .nfa_size_limit(Some(bytes_max))
            .which_captures(WhichCaptures::None);
        let nfa = thompson::Compiler::new().configure(config).build_from_hir(&hir);
        let nfa = nfa.map_err(|error| match error.size_limit() {
            Some(_) => ExpressionErrorKind::TooLarge { bytes_max },
            None => ExpressionErrorKind::Syntax(error.to_string()),
        })?;
        let compiled_bytes = nfa.memory_usage();
        let (dfa, kept_bytes) = lazy_dfa(&nfa)?;
        Ok(Self { dfa, compiled_bytes, kept_bytes })
    }

    pub(super) fn compiled_bytes(&self) -> usize {
        self.compiled_bytes
    }

    pub(super) fn search_bytes(&self) -> usize {
        self.kept_bytes
    }

    pub(super) fn search_memory(&self) -> SearchMemory {
        SearchMemory(Some(self.dfa.create_cache()))
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        let (mut memory, mut search) = (self.search_memory(), Search::default());
        let found = self.search(&mut memory, &mut search, text.as_bytes(), || false);
        found.expect("a search that isn't stopped ends")
    }

    pub(super) fn search(
        &self,
        memory: &mut SearchMemory,
        search: &mut Search,
        text: &[u8],
        mut is_out_of_time: impl FnMut() -> bool,
    ) -> Option<bool> {
        let cache = memory.0.as_mut().expect("the memory is of another expression");
        let steps_per_look = (BYTES_PER_LOOK / self.compiled_bytes).clamp(1, STEPS_PER_LOOK_MAX);
        let mut state = match search.state {
            Some(state) => state,
            None => {
                let anchored = start::Config::new().anchored(Anchored::Yes);
                self.dfa.start_state(cache, &anchored).expect("no byte is excluded, and states are kept")
            }
        };
        for piece in text[search.at..].chunks(steps_per_look) {
            for byte in piece {
                state = self.dfa.next_state(cache, state, *byte).expect(NEVER_GIVES_UP);
                if state.is_dead() {
                    return Some(false);
                }
            }
            search.at += piece.len();
            if search.at < text.len() && is_out_of_time() {
                search.state = Some(state);
                return None;
            }
        }
        let end = self.dfa.next_eoi_state(cache, state).expect(NEVER_GIVES_UP);
        Some(end.is_match())
    }
}

const NEVER_GIVES_UP: &str = "no bound is set on how often states are made again";

/// An automaton with as much memory for its states as it needs, and how much that is.
fn lazy_dfa(nfa: &thompson::NFA) -> Result<(DFA, usize), ExpressionErrorKind> {
    let mut kept_bytes = KEPT_BYTES_MIN;
    loop {
        let config = DFA::config()
            // All ways to match are followed: the one that ends with the text counts, whichever it is.
            .match_kind(MatchKind::All)
            .cache_capacity(kept_bytes)
            .minimum_cache_clear_count(None);
        match DFA::builder().configure(config).build_from_nfa(nfa.clone()) {
            Ok(dfa) => return Ok((dfa, kept_bytes)),
            Err(_) if kept_bytes < nfa.memory_usage().max(KEPT_BYTES_MIN) * 64 => kept_bytes *= 2,
            Err(error) => return Err(ExpressionErrorKind::Syntax(error.to_string())),
        }
    }
}

/// The library draws an arrow at the place; the words are in the last line.
fn last_line(text: &str) -> String {
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}
