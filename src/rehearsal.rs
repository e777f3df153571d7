//! The acting side of the scripted engine: reads a prompt, does what a script says, prints a stream.
//!
//! Its usage is computed from the bytes it was really sent: bytes / 4 times a growth factor, what an
//! earlier request of the session held as cache reads, the rest as cache writes. So context economy shows
//! in it as it does with a real engine.

pub mod script;
mod session;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::config::Problem;
use crate::engine::scripted::wire::{EXIT_BAD_SCRIPT, EXIT_NO_SESSION, Line};
use crate::event::Usage;
use script::{Action, Ending, Fault, Script, Turn};
use session::Conversation;

/// Characters of a line that is told of a tool; who shows it hides secrets in it before he cuts it.
const LINE_CHARS: usize = 4096;

/// What the hidden subcommand is told.
#[derive(Debug, Clone)]
pub struct Acting {
    /// The script; none answers every prompt with a success.
    pub script: Option<PathBuf>,
    /// The phase, as `NN_step`.
    pub phase: String,
    /// Try of the phase, from 1.
    pub leg: u32,
    /// Prompt in that leg, from 1.
    pub turn: u32,
    /// The model to speak of.
    pub model: String,
    /// File with the system prompt.
    pub system: PathBuf,
    /// The session file.
    pub session: PathBuf,
    /// The session to go on with.
    pub resume: Option<String>,
}

/// Why a script could not be acted.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// It cannot be read.
    #[error("{0}")]
    Script(Problem),
    /// The session to resume is not there.
    #[error("no session `{0}`")]
    NoSession(String),
    /// Files or pipes.
    #[error("cannot {action} `{path}`")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

impl ActError {
    /// The exit status that the decoder of this engine understands.
    pub fn exit_status(&self) -> i32 {
        match self {
            Self::Script(_) => EXIT_BAD_SCRIPT,
            Self::NoSession(_) => EXIT_NO_SESSION,
            Self::Io { .. } => 1,
        }
    }
}

/// Acts one turn: the prompt comes from `input`, the stream goes to `output`. Returns the exit status.
///
/// # Errors
///
/// When the script, the session or a file cannot be read or written.
pub fn act(acting: &Acting, mut input: impl io::Read, output: &mut dyn Write) -> Result<i32, ActError> {
    let io_error = |action, path: &Path| {
        let path = path.display().to_string();
        move |source| ActError::Io { action, path, source }
    };
    let mut prompt = String::new();
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(io_error("read the prompt from", Path::new("standard input")))?;
    prompt.push_str(&String::from_utf8_lossy(&bytes));
    if prompt.is_empty() {
        // fia died before it recorded this process and closed the pipe: nothing was asked.
        return Ok(0);
    }
    let script = match &acting.script {
        Some(path) => Script::load(path, &path.display().to_string()).map_err(ActError::Script)?,
        None => Script::default(),
    };
    let turn = script.turn(&acting.phase, acting.leg, acting.turn);
    let system = fs::read_to_string(&acting.system).map_err(io_error("read", &acting.system))?;
    let mut conversation = match &acting.resume {
        Some(id) => Conversation::resume(&acting.session, id, &system)
            .map_err(io_error("read", &acting.session))?
            .ok_or_else(|| ActError::NoSession(id.clone()))?,
        None => Conversation::fresh(&acting.session, &system).map_err(io_error("create", &acting.session))?,
    };
    let mut stage = Stage { script: &script, output, spent: Usage::default(), calls: 0 };
    let played = stage.play(acting, &turn, &prompt, &mut conversation);
    played.map_err(io_error("act on", &acting.session))
}

struct Stage<'a> {
    script: &'a Script,
    output: &'a mut dyn Write,
    spent: Usage,
    calls: u32,
}

impl Stage<'_> {
    fn print(&mut self, line: &Line) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line).expect("lines are plain data");
        bytes.push(b'\n');
        self.output.write_all(&bytes)?;
        self.output.flush()
    }

    fn play(&mut self, acting: &Acting, turn: &Turn, prompt: &str, conversation: &mut Conversation) -> io::Result<i32> {
        if let Some(Fault::Exit { code, stderr }) = &turn.fault {
            io::stderr().write_all(stderr.as_bytes())?;
            return Ok(*code);
        }
        self.print(&Line::Session {
            id: conversation.id().to_owned(),
            model: acting.model.clone(),
            window: self.script.window,
        })?;
        conversation.add("user", prompt)?;
        for action in &turn.actions {
            self.request(turn, conversation)?;
            self.perform(action, conversation)?;
        }
        if let Some(wait) = turn.seconds {
            std::thread::sleep(Duration::from_secs_f64(wait.max(0.0)));
        }
        if let Some(fault) = &turn.fault {
            return self.fault(fault, turn, conversation);
        }
        self.request(turn, conversation)?;
        self.end(turn, conversation)
    }

    /// One model call: counts what it is sent against what the session's last one was.
    fn request(&mut self, turn: &Turn, conversation: &mut Conversation) -> io::Result<()> {
        let usage = match turn.usage {
            Some(explicit) => explicit,
            None => conversation.request(self.script.growth),
        };
        self.spent += usage;
        self.print(&Line::Request { usage })
    }

    fn perform(&mut self, action: &Action, conversation: &mut Conversation) -> io::Result<()> {
        self.calls += 1;
        let call = format!("call-{}", self.calls);
        let (tool, summary) = match action {
            Action::Say(text) => {
                conversation.add("assistant", text)?;
                return self.print(&Line::Text { text: text.clone() });
            }
            Action::Write(files) => ("write", files.keys().cloned().collect::<Vec<_>>().join(" ")),
            Action::Delete(path) => ("delete", path.clone()),
            Action::Run(command) => ("bash", command.clone()),
            Action::Read(path) => ("read", path.clone()),
        };
        let tool = tool.to_owned();
        let summary: String = summary.chars().take(LINE_CHARS).collect();
        self.print(&Line::Tool { call: call.clone(), tool: tool.clone(), summary: summary.clone() })?;
        let (ok, result) = carry_out(action);
        conversation.add("tool", &json!({"tool": tool, "summary": summary, "result": result}).to_string())?;
        let first_line = result.lines().next().unwrap_or_default().chars().take(LINE_CHARS).collect();
        self.print(&Line::ToolEnd { call, ok, first_line })
    }

    fn end(&mut self, turn: &Turn, conversation: &mut Conversation) -> io::Result<i32> {
        let usage = Some(self.spent);
        match &turn.ending {
            Ending::Answer(text) => {
                self.spent.output += text.len() as u64 / 4;
                conversation.add("assistant", text)?;
                self.print(&Line::Text { text: text.clone() })?;
                let cost_usd = Some(self.script.price(&self.spent));
                self.print(&Line::End { text: text.clone(), usage: Some(self.spent), cost_usd })?;
                Ok(0)
            }
            Ending::Cut => self.print(&Line::Cut { usage }).map(|()| 0),
            Ending::Fail(fail) => {
                let (kind, message, retry_after) = (fail.kind, fail.message.clone(), fail.retry_after);
                self.print(&Line::Failed { kind, message, retry_after, usage }).map(|()| 1)
            }
        }
    }

    fn fault(&mut self, fault: &Fault, turn: &Turn, conversation: &mut Conversation) -> io::Result<i32> {
        match fault {
            Fault::Exit { code, .. } => Ok(*code),
            Fault::Emit(path) => {
                self.output.write_all(&fs::read(path)?)?;
                self.output.flush().map(|()| 0)
            }
            Fault::Hang => loop {
                std::thread::sleep(Duration::from_secs(3600));
            },
            Fault::HoldPipe => {
                Command::new("sleep").arg("600").stdin(Stdio::null()).spawn()?;
                self.request(turn, conversation)?;
                self.end(turn, conversation)
            }
            Fault::Linger => {
                self.request(turn, conversation)?;
                self.end(turn, conversation)?;
                loop {
                    std::thread::sleep(Duration::from_secs(3600));
                }
            }
        }
    }
}

/// Does one action in the current directory; the result is what a tool would tell a model.
fn carry_out(action: &Action) -> (bool, String) {
    let told = |result: io::Result<String>| match result {
        Ok(text) => (true, text),
        Err(error) => (false, error.to_string()),
    };
    match action {
        Action::Say(text) => (true, text.clone()),
        Action::Write(files) => told(files.iter().try_fold(String::new(), |mut done, (path, content)| {
            if let Some(folder) = Path::new(path).parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(path, content)?;
            done += &format!("wrote {} bytes to {path}\n", content.len());
            Ok(done)
        })),
        Action::Delete(path) => told(fs::remove_file(path).map(|()| format!("deleted {path}"))),
        Action::Read(path) => told(fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())),
        Action::Run(command) => match Command::new("sh").arg("-c").arg(command).stdin(Stdio::null()).output() {
            Ok(output) => {
                let text = [output.stdout, output.stderr].concat();
                (output.status.success(), String::from_utf8_lossy(&text).into_owned())
            }
            Err(error) => (false, error.to_string()),
        },
    }
}
