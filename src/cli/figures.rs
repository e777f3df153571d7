//! `fia report` and `fia models`: what a run cost and what all of them did.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::reading::life;
use super::report::CliError;
use super::spans::{Collector, Export};
use super::{paint_stdout, reading, width_stdout};
use crate::event::Record;
use crate::store::RunDir;
use crate::view::dollars::CachePrices;
use crate::view::html::{PageFold, Prompt};
use crate::view::json::{self, ModelList};
use crate::view::plot::PlotFold;
use crate::view::report::ReportFold;
use crate::view::rows::ModelRow;
use crate::view::tables;

/// What is added to the names of files that hold a prompt as it was sent.
const PROMPT_SUFFIX: &str = ".user.md";

/// Arguments of `fia report`.
#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// The run: its id or a unique part of it; the newest if left out
    run: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also draw live context over time and tokens a phase as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Also write one self-contained page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Also send the run's spans to `OTEL_EXPORTER_OTLP_ENDPOINT`
    #[arg(long)]
    otlp: bool,
}

/// Arguments of `fia models`.
#[derive(Debug, Args)]
pub(super) struct ModelsArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Reports a run, in one pass over its log.
pub(super) fn report(args: &ReportArgs) -> Result<ExitCode, CliError> {
    let data = reading::data()?;
    let dir = reading::find(&data, args.run.as_deref())?;
    let life = life(&data, &dir)?;
    let mut folds = Folds::new(args)?;
    reading::records(&dir, |record| folds.push(record))?;
    if folds.report.state().run.events.0 == 0 {
        let hint = "it was killed before it began; start another";
        return Err(CliError::usage(format!("run `{}` has no records", dir.run()), hint));
    }
    folds.write_files(&dir, args)?;
    if let Some(export) = folds.export.take() {
        export.end(life)?;
    }
    let report = folds.report.report(|model| folds.prices(model));
    let mut out = io::stdout().lock();
    if args.json {
        json::write(&mut out, &report)?;
    } else {
        report.write_text(&mut out, width_stdout(), paint_stdout())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists engines and models over all runs.
pub(super) fn models(args: &ModelsArgs) -> Result<ExitCode, CliError> {
    let data = reading::data()?;
    let rows: Vec<_> = reading::known(&data)?.flat_map(|known| known.projection.models).collect();
    let mut out = io::stdout().lock();
    if args.json {
        json::write(&mut out, &ModelList::over(rows))?;
    } else {
        tables::models(&ModelRow::over(rows)).write(&mut out, width_stdout(), paint_stdout())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// All that is made of the records of a run in one pass, as far as it was asked for.
struct Folds {
    report: ReportFold,
    plot: Option<PlotFold>,
    page: Option<PageFold>,
    export: Option<Export>,
}

impl Folds {
    fn new(args: &ReportArgs) -> Result<Self, CliError> {
        let export = args.otlp.then(|| Collector::named().map(Export::of_all)).transpose()?;
        Ok(Self {
            report: ReportFold::default(),
            plot: args.svg.as_ref().map(|_| PlotFold::default()),
            page: args.html.as_ref().map(|_| PageFold::default()),
            export,
        })
    }

    fn push(&mut self, record: &Record) -> Result<(), CliError> {
        self.report.push(record);
        if let Some(plot) = &mut self.plot {
            plot.push(record);
        }
        if let Some(export) = &mut self.export {
            export.push(record)?;
        }
        if let Some(page) = &mut self.page {
            page.push(record);
        }
        Ok(())
    }

    fn write_files(&self, dir: &RunDir, args: &ReportArgs) -> Result<(), CliError> {
        if let (Some(path), Some(plot)) = (&args.svg, &self.plot) {
            let svg = plot.svg(self.report.state());
            write_file(path, |out| out.write_all(svg.as_bytes()))?;
        }
        if let (Some(path), Some(page)) = (&args.html, &self.page) {
            let prompts = prompts(dir)?;
            write_file(path, |out| page.write(out, prompts, |model| self.prices(model)))?;
        }
        Ok(())
    }

    fn prices(&self, model: &str) -> Option<CachePrices> {
        CachePrices::of(self.report.state(), self.report.frame(), model)
    }
}

fn write_file(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), CliError> {
    let written = File::create(path).map(BufWriter::new).and_then(|mut out| {
        write(&mut out)?;
        out.flush()
    });
    written.map_err(|error| CliError::machine(format!("cannot write `{}`", path.display()), error))
}

/// The prompts that were really sent, in the order of their phases; each is read when it is asked for.
fn prompts(dir: &RunDir) -> Result<impl Iterator<Item = Prompt>, CliError> {
    let failed = |path: &Path, error| CliError::machine(format!("cannot list `{}`", path.display()), error);
    let agents = dir.path().join("agents");
    let mut files = Vec::new();
    for agent in walkdir::WalkDir::new(&agents).min_depth(2).max_depth(2) {
        let entry = match agent {
            Ok(entry) => entry,
            Err(error) if error.io_error().is_some_and(|io| io.kind() == io::ErrorKind::NotFound) => continue,
            Err(error) => return Err(failed(&agents, io::Error::from(error))),
        };
        if entry.file_type().is_file() && entry.file_name().to_string_lossy().ends_with(PROMPT_SUFFIX) {
            files.push(entry.into_path());
        }
    }
    files.sort_by_key(|path| order(path));
    let top = dir.path().to_owned();
    Ok(files.into_iter().filter_map(move |path| {
        // A file that went away meanwhile is none that can be shown.
        let text = String::from_utf8_lossy(&fs::read(&path).ok()?).into_owned();
        let file = path.strip_prefix(&top).unwrap_or(&path).to_string_lossy().into_owned();
        Some(Prompt { file, text })
    }))
}

/// Phase, leg and turn of a prompt: `03_fix_1.2.1.user.md`.
fn order(path: &Path) -> (String, u32, u32) {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut parts = name.trim_end_matches(PROMPT_SUFFIX).rsplitn(3, '.');
    let mut number = || parts.next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let (turn, leg) = (number(), number());
    (parts.next().unwrap_or_default().to_owned(), leg, turn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn prompts_come_in_the_order_in_which_they_were_sent() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::new("r".into(), folder.path());
        for file in ["b/02_fix.1.10.user.md", "a/01_plan.1.1.user.md", "b/02_fix.1.9.user.md", "b/02_fix.2.1.user.md"] {
            let path = folder.path().join("agents").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, file).unwrap();
        }
        fs::write(folder.path().join("agents/b/system.md"), "").unwrap();
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join("agents/b/02_fix.3.1.user.md")).unwrap();
        let texts: Vec<String> = prompts(&dir).unwrap().map(|prompt| prompt.text).collect();
        let sent = ["a/01_plan.1.1.user.md", "b/02_fix.1.9.user.md", "b/02_fix.1.10.user.md", "b/02_fix.2.1.user.md"];
        assert_eq!(texts, sent);
        assert_eq!(prompts(&RunDir::new("r".into(), folder.path().join("none"))).unwrap().count(), 0);
    }
}
