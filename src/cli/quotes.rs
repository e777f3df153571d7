//! Words that lost their quotes: an option among them was taken out, and the rest would be another prompt.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

/// Commands that take words for an agent, and the argument that holds them.
const WORDS: [(&str, &str); 3] = [("run", "prompt"), ("message", "text"), ("ask", "text")];

/// Refuses an option that stands between two words of one text; before and after them it is plain what is meant.
pub(super) fn check(command: &mut Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some((name, matches)) = matches.subcommand() else { return Ok(()) };
    let Some((_, words)) = WORDS.iter().find(|(of, _)| *of == name) else { return Ok(()) };
    let places: Vec<usize> = matches.indices_of(words).into_iter().flatten().collect();
    let (Some(first), Some(last)) = (places.first(), places.last()) else { return Ok(()) };
    let Some(command) = command.find_subcommand_mut(name) else { return Ok(()) };
    let inside = |option: &&clap::Arg| {
        let id = option.get_id().as_str();
        // What is a default stands nowhere.
        matches.value_source(id) == Some(ValueSource::CommandLine)
            && matches.indices_of(id).into_iter().flatten().any(|at| (first..last).contains(&&at))
    };
    let Some(option) = command.get_arguments().filter(|option| !option.is_positional()).find(inside) else {
        return Ok(());
    };
    let option = option.get_long().unwrap_or_default();
    let message = format!(
        "`--{option}` stands between words of the {words}, and would not be one of them; put the {words} in quotes"
    );
    Err(command.error(ErrorKind::ArgumentConflict, message))
}
