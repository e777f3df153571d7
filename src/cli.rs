//! The command line: parses arguments, wires the parts, prints errors.
//!
//! Data goes to standard output, all else to standard error. Exit status: 0 the goal was met or a query
//! worked, 1 another outcome, 2 usage or config, 3 fia or the machine failed, 130 and 143 on signals.

mod acting;
mod approve;
mod ask;
mod asking;
mod channel;
mod choose;
mod config;
mod demo;
mod doctor;
mod events;
mod figures;
mod gateway;
mod held;
mod init;
mod man;
mod message;
mod notify;
mod present;
mod project;
mod query;
mod quotes;
mod reading;
mod report;
mod resume;
mod run;
mod screen;
mod signals;
mod simulate;
mod spans;
mod stop;
mod tips;
mod undo;
mod verdict;
mod view;
mod watch;
mod workflows;
mod worktree;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::view::paint::Paint;
use crate::visible;
use report::CliError;

/// What stands below the list of commands.
const FIRST_STEPS: &str = "\
First steps:
  fia demo                                     a whole run, without an account
  fia doctor                                   what is installed, and who is logged in
  fia init                                     a configuration fitted to this repository
  fia run build_test --dry-run \"what to do\"    what would run";

/// Run multi-phase agent builds through coding-agent CLIs, economically and safely.
#[derive(Debug, Parser)]
#[command(name = "fia", version, max_term_width = 100, arg_required_else_help = true, after_help = FIRST_STEPS)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a workflow for a prompt
    Run(run::RunArgs),
    /// Go on with a run
    Resume(resume::ResumeArgs),
    /// See the whole story in a scratch repository: no account, no network
    Demo(demo::DemoArgs),
    /// List the runs of this repository
    Runs(query::RunsArgs),
    /// Show one run
    Show(query::RunArg),
    /// List the phases of a run
    Phases(query::RunArg),
    /// List the agents of a run with their sessions
    Agents(query::RunArg),
    /// List engines and models over all runs
    Models(figures::ModelsArgs),
    /// Print the event log of a run
    Events(events::EventsArgs),
    /// Say something to the agents of a run
    Message(message::MessageArgs),
    /// Ask an agent something while no run is live
    Ask(ask::AskArgs),
    /// Print the messages of a run
    Channel(channel::ChannelArgs),
    /// Report what a run cost, phase by phase, and what rotation and pruning saved
    Report(figures::ReportArgs),
    /// Watch a run on a screen of its own
    Watch(watch::WatchArgs),
    /// Serve pages about the runs of this repository to a browser on this machine
    View(view::ViewArgs),
    /// Stop a run, or all runs of this repository
    Stop(stop::StopArgs),
    /// Say yes to the approval that a run asks for
    Approve(approve::AnswerArgs),
    /// Say no to it
    Reject(approve::AnswerArgs),
    /// Say what a run left out, for its next stretch
    Verdict(verdict::VerdictArgs),
    /// Take back what a run changed, or what a rollback undid
    Undo(undo::UndoArgs),
    /// Write a configuration and prompts for this repository; overwrite nothing
    Init,
    /// List the workflows, or print one
    Workflows(workflows::WorkflowsArgs),
    /// Look at the configuration
    Config(config::ConfigArgs),
    /// Say what is installed, who is logged in, and whether ceilings can fire
    Doctor(doctor::DoctorArgs),
    /// Shorten old tool results between any client and its provider
    Gateway(gateway::GatewayArgs),
    /// See what other policies would cost, on made-up or recorded conversations
    Simulate(simulate::SimulateArgs),
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page of fia or of a command, or write all of them
    Man(man::ManArgs),
    /// Act a script as the scripted engine
    #[command(hide = true, name = crate::engine::scripted::SUBCOMMAND)]
    Act(acting::ActArgs),
    /// Serve made-up model answers on loopback
    #[command(hide = true)]
    Provider(crate::provider::Args),
}

/// Parses the arguments of this process, does what they say and returns its exit status.
pub fn main() -> ExitCode {
    diagnostics();
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are data, and go to standard output with status 0.
            let _closed_pipe = error.print();
            return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    match done(arguments.command) {
        Ok(status) => status,
        Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            report::render(&error, &mut anstream::stderr().lock());
            error.status()
        }
    }
}

/// The arguments of this process.
fn parse() -> Result<Arguments, clap::Error> {
    let mut command = Arguments::command();
    let matches = command.try_get_matches_from_mut(std::env::args_os()).map_err(tips::with_tips)?;
    quotes::check(&mut command, &matches)?;
    Arguments::from_arg_matches(&matches)
}

/// Does what a command says.
fn done(command: Command) -> Result<ExitCode, CliError> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Resume(args) => resume::resume(&args),
        Command::Demo(args) => demo::demo(&args),
        Command::Runs(args) => query::runs(&args),
        Command::Show(args) => query::show(&args),
        Command::Phases(args) => query::phases(&args),
        Command::Agents(args) => query::agents(&args),
        Command::Models(args) => figures::models(&args),
        Command::Events(args) => events::events(&args),
        Command::Message(args) => message::message(&args),
        Command::Ask(args) => ask::ask(&args),
        Command::Channel(args) => channel::channel(&args),
        Command::Report(args) => figures::report(&args),
        Command::Watch(args) => watch::watch(&args),
        Command::View(args) => view::view(&args),
        Command::Stop(args) => stop::stop(&args),
        Command::Approve(args) => approve::answer(&args, approve::Decision::Approve),
        Command::Reject(args) => approve::answer(&args, approve::Decision::Reject),
        Command::Verdict(args) => verdict::verdict(&args),
        Command::Undo(args) => undo::undo(&args),
        Command::Init => init::init(),
        Command::Workflows(args) => workflows::workflows(&args),
        Command::Config(args) => config::config(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Gateway(args) => gateway::gateway(&args),
        Command::Simulate(args) => simulate::simulate(&args),
        Command::Completions { shell } => completions(shell),
        Command::Man(args) => man::man(&args),
        Command::Act(args) => acting::act(args),
        Command::Provider(args) => acting::provider(args),
    }
}

/// Says something on standard error; a closed one hears nothing of it. What could steer a terminal is made visible.
fn say(text: &str) -> ExitCode {
    let _gone = writeln!(anstream::stderr().lock(), "{}", visible::block(text));
    ExitCode::SUCCESS
}

/// Prints what a shell needs to complete the arguments of fia.
fn completions(shell: clap_complete::Shell) -> Result<ExitCode, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "fia", &mut script);
    io::Write::write_all(&mut io::stdout().lock(), &script)?;
    Ok(ExitCode::SUCCESS)
}

/// Diagnostics for developers, on standard error when `FIA_LOG` asks for them.
fn diagnostics() {
    if let Ok(filter) = std::env::var("FIA_LOG") {
        let filter = tracing_subscriber::EnvFilter::new(filter);
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    }
}

/// Colour for standard output: on a terminal, unless `NO_COLOR` is set.
fn paint_stdout() -> Paint {
    paint(io::stdout().is_terminal())
}

fn paint(terminal: bool) -> Paint {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) || is_dumb();
    if terminal && !refused { Paint::Ansi } else { Paint::Plain }
}

/// Whether the terminal says of itself that it can only print lines.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Columns of the terminal behind standard output; when it is no terminal those that `COLUMNS` asks for, if any.
fn width_stdout() -> Option<usize> {
    let columns = match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) => usize::from(size.ws_col),
        Err(_) => std::env::var("COLUMNS").ok()?.parse().ok()?,
    };
    Some(columns).filter(|columns| *columns > 0)
}

/// The directory that fia was started in.
fn current_dir() -> Result<PathBuf, CliError> {
    std::env::current_dir().map_err(|error| CliError::machine("cannot read the current directory", error))
}

/// A path as a command in the current directory can be given it.
fn from_here(path: &Path) -> String {
    let here = std::env::current_dir();
    let inside = here.as_ref().ok().and_then(|here| path.strip_prefix(here).ok());
    inside.unwrap_or(path).display().to_string()
}
