//! `fia view`: pages about the runs of this repository, for a browser on this machine.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Args;

use super::reading;
use super::reading::{life, projection};
use super::report::CliError;
use crate::view::web::{Server, Sources};

/// Bytes of the secret part of the address: not to be guessed.
const TOKEN_BYTES: usize = 16;

/// Arguments of `fia view`.
#[derive(Debug, Args)]
pub(super) struct ViewArgs {
    /// Listen on this port of 127.0.0.1; a free one if left out
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

/// Serves the pages until it is ended.
pub(super) fn view(args: &ViewArgs) -> Result<ExitCode, CliError> {
    let sources = Sources { data: reading::data()?, life, projection };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::machine("cannot start the runtime", error))?;
    let token = token()?;
    runtime.block_on(async {
        let server = Server::listen(args.port, token, sources).await.map_err(|error| CliError::Machine {
            message: format!("cannot listen on port {} of 127.0.0.1", args.port),
            hint: Some("leave `--port` out to take a free one".to_owned()),
            source: Some(Box::new(error)),
        })?;
        {
            let mut out = io::stdout().lock();
            writeln!(out, "{}", server.address())?;
            out.flush()?;
        }
        // A closed standard error takes no words.
        let _gone = writeln!(anstream::stderr(), "The address is a secret: who has it can read. Ctrl-C ends it.");
        server.serve().await.map_err(|error| CliError::machine("cannot go on serving", error))
    })?;
    Ok(ExitCode::SUCCESS)
}

fn token() -> Result<String, CliError> {
    let mut bytes = [0; TOKEN_BYTES];
    let failed =
        |error: getrandom::Error| CliError::machine("cannot make a secret", io::Error::other(error.to_string()));
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
