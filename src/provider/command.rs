//! The provider as a program of its own.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::scenario::is_growth;
use super::{CacheLife, CacheScope, Options, Provider, ProviderError, Scenario};

/// The arguments of the hidden `provider` subcommand.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// The port on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Write the port to this file once listening.
    #[arg(long, value_name = "FILE")]
    pub port_file: Option<PathBuf>,
    /// A JSON file, read again when it changes, or `builtin:NAME`.
    #[arg(long, value_name = "FILE", default_value = "builtin:plain")]
    pub scenario: String,
    /// Append one JSON line a request to this file.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Keep the body of every model request in this folder.
    #[arg(long, value_name = "DIR")]
    pub dump_dir: Option<PathBuf>,
    /// Multiply all input tokens, when the scenario names no factor.
    #[arg(long, default_value_t = 1.0, value_parser = growth)]
    pub growth: f64,
    /// What a prompt may share its prefix with.
    #[arg(long, value_enum, default_value_t)]
    pub cache_scope: CacheScope,
    /// How long a prompt stays cached: seconds, or `marked` for what its cache marks ask. Without it, for ever.
    #[arg(long, value_name = "SECS", value_parser = cache_life, default_value = "endless", hide_default_value = true)]
    pub cache_life: CacheLife,
    /// Where relative paths of `do` steps start.
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
}

fn growth(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|growth| is_growth(*growth)).ok_or_else(|| "not a number above 0".to_owned())
}

fn cache_life(text: &str) -> Result<CacheLife, String> {
    match text {
        "endless" => Ok(CacheLife::Endless),
        "marked" => Ok(CacheLife::Marked),
        seconds => match seconds.parse() {
            Ok(seconds) => Ok(CacheLife::Lasting(Duration::from_secs(seconds))),
            Err(_) => Err("neither whole seconds nor `marked` nor `endless`".to_owned()),
        },
    }
}

/// Runs a provider until SIGTERM or SIGINT. The first line on stdout is the port.
///
/// # Errors
///
/// When the scenario cannot be read, a file cannot be opened or written, the port is taken, or signals cannot be heard.
pub async fn serve(args: Args) -> Result<(), ProviderError> {
    let (scenario, source) = read_scenario(&args.scenario)?;
    let options = Options {
        port: args.port,
        growth: args.growth,
        cache_scope: args.cache_scope,
        cache_life: args.cache_life,
        log: args.log,
        dump_dir: args.dump_dir,
        cwd: args.cwd,
        ..Options::default()
    };
    let provider = Provider::start(scenario, options)?;
    if let Some((path, text)) = source {
        provider.follow(path, text);
    }
    let port = provider.port();
    if let Some(path) = &args.port_file {
        announce(path, port).map_err(ProviderError::file("write", path))?;
    }
    writeln!(std::io::stdout(), "{port}").map_err(ProviderError::file("write", Path::new("stdout")))?;
    until_signal().await.map_err(|source| ProviderError::Start { source })
}

/// Writes the port so that a reader sees the whole number or no file.
fn announce(path: &Path, port: u16) -> std::io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    std::fs::write(&new, format!("{port}\n"))?;
    std::fs::rename(&new, path)
}

async fn until_signal() -> std::io::Result<()> {
    let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        _ = term.recv() => Ok(()),
        interrupted = tokio::signal::ctrl_c() => interrupted,
    }
}

/// A scenario, and when it stands in a file, the path and text of that.
fn read_scenario(name: &str) -> Result<(Scenario, Option<(PathBuf, String)>), ProviderError> {
    if let Some(builtin) = name.strip_prefix("builtin:") {
        let scenario =
            Scenario::builtin(builtin).ok_or_else(|| ProviderError::UnknownScenario { name: builtin.to_owned() })?;
        return Ok((scenario, None));
    }
    let path = PathBuf::from(name);
    let text = std::fs::read_to_string(&path).map_err(ProviderError::file("read", &path))?;
    let scenario =
        Scenario::parse(&text).map_err(|source| ProviderError::Scenario { name: name.to_owned(), source })?;
    Ok((scenario, Some((path, text))))
}
