//! The hidden subcommands: the scripted engine and the loopback provider.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::report::CliError;
use crate::provider;
use crate::rehearsal::{self, Acting};

/// Arguments of the scripted engine; its adapter writes them.
#[derive(Debug, Args)]
pub(super) struct ActArgs {
    #[arg(long)]
    script: Option<PathBuf>,
    #[arg(long)]
    phase: String,
    #[arg(long)]
    leg: u32,
    #[arg(long)]
    turn: u32,
    #[arg(long)]
    model: String,
    #[arg(long)]
    system: PathBuf,
    #[arg(long)]
    session: PathBuf,
    #[arg(long)]
    resume: Option<String>,
}

/// Acts one turn.
pub(super) fn act(args: ActArgs) -> Result<ExitCode, CliError> {
    let acting = Acting {
        script: args.script,
        phase: args.phase,
        leg: args.leg,
        turn: args.turn,
        model: args.model,
        system: args.system,
        session: args.session,
        resume: args.resume,
    };
    let status = match rehearsal::act(&acting, io::stdin().lock(), &mut io::stdout().lock()) {
        Ok(status) => status,
        Err(error) => {
            // The decoder takes the last line of standard error as the reason.
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            writeln!(io::stderr().lock(), "{error}{cause}")?;
            error.exit_status()
        }
    };
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(1)))
}

/// Serves made-up model answers until a signal.
pub(super) fn provider(args: provider::Args) -> Result<ExitCode, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::machine("cannot start the runtime", error))?;
    let served = runtime.block_on(provider::serve(args));
    served.map(|()| ExitCode::SUCCESS).map_err(|error| CliError::machine("the provider failed", error))
}
