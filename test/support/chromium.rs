//! Headless Chromium, told what to do by its `DevTools` protocol: JSON messages, each ended by a zero byte, over pipes.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use super::test_env::TestEnv;

/// How long anything may take that a test waits for.
const LIMIT: Duration = Duration::from_secs(60);

/// Whether the reader prefers a light or a dark page.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scheme {
    Light,
    Dark,
}

/// A browser with one page of 1200 by 900 pixels.
pub(crate) struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    asked: u64,
    session: Option<String>,
    /// What the browser told without being asked.
    told: Vec<Value>,
}

impl Browser {
    pub(crate) fn open(env: &TestEnv) -> Self {
        let (to, from) = (env.home().join("to-browser"), env.home().join("from-browser"));
        for pipe in [&to, &from] {
            mkfifoat(CWD, pipe, Mode::RUSR | Mode::WUSR).expect("a pipe in an empty folder");
        }
        // Chromium reads from 3 and writes to 4.
        let script = "exec chromium --headless=new --disable-gpu --hide-scrollbars --no-first-run \
            --disable-dev-shm-usage --remote-debugging-pipe --user-data-dir=\"$HOME/profile\" $1 about:blank \
            3<\"$HOME/to-browser\" 4>\"$HOME/from-browser\"";
        // Its sandbox does not work for root.
        let sandbox = if rustix::process::geteuid().is_root() { "--no-sandbox" } else { "" };
        let mut command = env.command("sh");
        command.args(["-c", script, "sh", sandbox]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("sh starts");
        let to = OpenOptions::new().write(true).open(to).expect("the browser reads");
        let answers = BufReader::new(File::open(from).expect("the browser writes"));
        let (sender, from) = channel();
        std::thread::spawn(move || {
            for message in answers.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("the browser speaks JSON");
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut browser = Self { child, to, from, asked: 0, session: None, told: Vec::new() };
        browser.attach();
        browser
    }

    fn attach(&mut self) {
        let target = self.call("Target.createTarget", &json!({ "url": "about:blank" }))["targetId"].clone();
        let session = self.call("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        self.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable", "DOM.enable"] {
            self.call(domain, &json!({}));
        }
        let size = json!({ "width": 1200, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Asks for something and waits for the answer.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let mut message = json!({ "id": self.asked, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).expect("the browser lives");
        loop {
            let answer = self.from.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("no answer to {method}"));
            if answer["id"] == self.asked {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.told.push(answer);
        }
    }

    /// Opens an address and waits until it is loaded.
    pub(crate) fn go(&mut self, address: &str) {
        let answer = self.call("Page.navigate", &json!({ "url": address }));
        assert!(answer["errorText"].is_null(), "{address}: {}", answer["errorText"]);
        let loaded = format!("document.readyState === 'complete' && location.href === {}", json!(address));
        self.wait(&loaded);
    }

    /// The value of an expression in the page.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", &asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true, also across a change of page.
    pub(crate) fn wait(&mut self, expression: &str) {
        let begun = Instant::now();
        loop {
            let asked = json!({ "expression": expression, "returnByValue": true });
            if self.call("Runtime.evaluate", &asked)["result"]["value"] == true {
                return;
            }
            assert!(begun.elapsed() < LIMIT, "waited in vain for {expression} in\n{}", self.html());
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// The text of an element as it is seen.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let text = self.eval(&format!("document.querySelector({})?.innerText", json!(selector)));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// The whole page.
    pub(crate) fn html(&mut self) -> String {
        let root = self.call("DOM.getDocument", &json!({}))["root"]["nodeId"].clone();
        let html = self.call("DOM.getOuterHTML", &json!({ "nodeId": root }));
        html["outerHTML"].as_str().unwrap_or_default().to_owned()
    }

    /// No page runs a script from now on.
    pub(crate) fn without_scripts(&mut self) {
        self.call("Emulation.setScriptExecutionDisabled", &json!({ "value": true }));
    }

    /// Says which kind of page the reader prefers.
    pub(crate) fn scheme(&mut self, scheme: Scheme) {
        let value = match scheme {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Saves what is seen as PNG and gives its width and height. Fails when it is one empty plane.
    pub(crate) fn screenshot(&mut self, path: &Path) -> (u32, u32) {
        let shot = self.call("Page.captureScreenshot", &json!({ "format": "png" }));
        let png = from_base64(shot["data"].as_str().expect("a picture"));
        assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"), "not a PNG");
        // A plane of one colour has about 5 kB at this size.
        assert!(png.len() > 12_000, "{} holds nothing", path.display());
        std::fs::write(path, &png).expect("a picture can be written");
        let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
        (number(16), number(20))
    }

    /// What the page complained about since the last time: errors, exceptions, refused loads, dialogs.
    pub(crate) fn complaints(&mut self) -> Vec<Value> {
        // What was told before the answer to this stands before it.
        self.eval("0");
        let complains = |message: &Value| match message["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Page.javascriptDialogOpening") => true,
            Some("Log.entryAdded") => message["params"]["entry"]["level"] != "verbose",
            Some("Runtime.consoleAPICalled") => message["params"]["type"] == "error",
            _ => false,
        };
        self.told.drain(..).filter(complains).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // One that has ended is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let value = |letter: &u8| ALPHABET.iter().position(|known| known == letter).expect("base64") as u32;
    let letters: Vec<u32> = text.trim_end_matches('=').as_bytes().iter().map(value).collect();
    let bytes = letters.chunks(4).flat_map(|group| {
        // Four letters of six bits are three bytes; the last group may be shorter.
        let bits = group.iter().enumerate().fold(0, |bits, (at, value)| bits | value << (18 - 6 * at));
        bits.to_be_bytes()[1..group.len()].to_vec()
    });
    bytes.collect()
}
